"""How ONNX's multi-device fields say that a part is made of several runs."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.sharding.sharding import shard_value


def _model() -> tuple[ir.Model, ir.Node, ir.ModelConfiguration]:
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4, 36]))
    node = ir.node("Relu", [value], name="relu")
    graph = ir.Graph([value], node.outputs, nodes=[node], name="g", opset_imports={"": 21})
    model = ir.Model(graph, ir_version=11)
    return model, node, model.add_device_configuration("two", device_names=["a", "b"])


def _dims(node: ir.Node, value: ir.Value) -> list[tuple[int, list[tuple[object, int]]]]:
    (spec,) = node.sharding_of(value)
    return [
        (dim.axis, [(one.dim, one.num_shards) for one in dim.simple_shardings])
        for dim in spec.sharded_dims
    ]


@pytest.mark.parametrize(("runs", "expected"), [(1, [(36, 2)]), (3, [(3, 1), (12, 2)])])
def test_runs_are_written_as_axes_that_were_fused(runs, expected):
    _, node, configuration = _model()
    value = node.inputs[0]
    shard_value(node, value, configuration, axis=1, num_shards=2, runs=runs, device_indices=(0, 1))
    assert _dims(node, value) == [(1, expected)]
    assert node.sharding_of(value)[0].device == (0, 1)


def test_other_axes_values_and_configurations_stay_as_they_are():
    model, node, configuration = _model()
    value, result = node.inputs[0], node.outputs[0]
    other = model.add_device_configuration("others", device_names=["c", "d"])
    node.shard(value, configuration=other, axis=1, num_shards=2)
    shard_value(node, value, configuration, axis=0, num_shards=4)
    shard_value(node, result, configuration, axis=1, num_shards=2)
    shard_value(node, value, configuration, axis=1, num_shards=3, runs=2)
    mine = [spec for spec in node.sharding_of(value) if len(spec.sharded_dims) == 2]
    assert [len(dim.simple_shardings) for dim in mine[0].sharded_dims] == [1, 2]
    assert _dims(node, result)[0][1][0][1] == 2
    kept = [spec for spec in node.sharding_of(value) if len(spec.sharded_dims) == 1]
    assert kept[0].sharded_dims[0].simple_shardings == (ir.SimpleShardedDim(36, 2),)
