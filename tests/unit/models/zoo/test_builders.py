"""What holds for every builder of the zoo, at a reduced size."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY, ModelBuilder


def test_is_a_builder_whose_model_is_valid(make, built):
    assert isinstance(make(), ModelBuilder)
    assert built.producer_name == "mcm-zoo"
    assert WEIGHTS_KEY not in built.metadata_props
    onnx.checker.check_model(ir.to_proto(built), full_check=True)


def test_names_are_unique_and_look_exported(built):
    nodes = list(built.graph)
    names = [node.name for node in nodes]
    assert len(set(names)) == len(names)
    assert all(name.startswith("/") and name.count("//") == 0 for name in names)
    assert all(node.op_type in node.name for node in nodes)


def test_outputs_are_finite_and_follow_input_and_weights(make, built, run, feeds):
    inputs = feeds(built, 1)
    first, second = run(built, inputs), run(built, feeds(built, 2))
    reseeded = run(make(seed=1).build(), inputs)
    assert not np.allclose(first[0], reseeded[0], atol=1e-3)
    for value, one, other in zip(built.graph.outputs, first, second, strict=True):
        assert one.shape == value.shape.numpy()
        assert np.isfinite(one).all()
        assert 0.01 < one.std() < 100
        assert (one - other).std() > 0.05 * one.std()


def test_no_weight_or_node_is_idle(built):
    """A part that the outputs ignore would hide a wrong split behind it."""
    graph = built.graph
    used = {value.name for node in graph for value in node.inputs if value is not None}
    assert set(graph.initializers) <= used
    ends = {value.name for value in graph.outputs}
    assert all((used | ends) & {value.name for value in node.outputs} for node in graph)


def test_same_seed_gives_same_bytes(make, built):
    one, other = (ir.to_proto(model).SerializeToString() for model in (built, make().build()))
    assert one == other


def test_shape_only_keeps_the_shapes_and_runs(make, built, run, feeds):
    tiny = make(shape_only=True).build()
    assert tiny.metadata_props[WEIGHTS_KEY] == SHAPE_ONLY
    assert all(value.const_value.size <= 1024 for value in tiny.graph.initializers.values())
    proto = ir.to_proto(tiny)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    results = run(tiny, feeds(tiny, 1))
    rows = zip(inferred.graph.output, built.graph.outputs, results, strict=True)
    for output, value, result in rows:
        extents = tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)
        assert extents == result.shape == value.shape.numpy()
