"""The form of BERT's graph, and what it computes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_models.zoo.bert import Bert

_SIZE = {"layers": 3, "hidden": 32, "heads": 2, "intermediate": 64, "vocab": 50, "seq": 12}


def _inputs(batch: int, seq: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        "input_ids": rng.integers(50, size=(batch, seq)),
        "attention_mask": np.ones((batch, seq), dtype=np.int64),
        "token_type_ids": rng.integers(2, size=(batch, seq)),
    }


def test_normalisation_and_gelu_are_spelt_out():
    model = Bert(**_SIZE).build()
    count = Counter(node.op_type for node in model.graph)
    assert model.opset_imports[""] == 12
    assert model.ir_version == 7
    assert count["ReduceMean"] == 2 * (2 * 3 + 1)
    assert count["Erf"] == count["Softmax"] == 3
    assert count["Shape"] == count["LayerNormalization"] == count["Gelu"] == 0


def test_mask_is_computed_once_and_read_by_every_layer():
    graph = Bert(**_SIZE).build().graph
    (cast,) = (node for node in graph if node.op_type == "Cast")
    (sub,) = (use.node for use in cast.outputs[0].uses())
    (mul,) = (use.node for use in sub.outputs[0].uses())
    readers = [use.node.name for use in mul.outputs[0].uses()]
    assert readers == [f"/encoder/layer.{layer}/attention/self/Add" for layer in range(3)]


def test_padding_is_not_read(run):
    model = Bert(**_SIZE).build()
    feeds = _inputs(1, 12)
    feeds["attention_mask"][0, 8:] = 0
    changed = feeds | {"input_ids": feeds["input_ids"].copy()}
    changed["input_ids"][0, 8:] = 1
    np.testing.assert_array_equal(run(model, feeds)[0][:, :8], run(model, changed)[0][:, :8])


def test_computed_shapes_change_no_result(run):
    feeds = _inputs(2, 12)
    constant = run(Bert(**_SIZE, batch=2).build(), feeds)
    computed = run(Bert(**_SIZE, batch=2, computed_shapes=True).build(), feeds)
    for one, other in zip(constant, computed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_dynamic_model_takes_any_length(run):
    model = Bert(**_SIZE, dynamic=True).build()
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert [str(extent) for extent in model.graph.inputs[0].shape] == ["batch", "seq"]
    for batch, seq in ((1, 12), (3, 5)):
        hidden, pooled = run(model, _inputs(batch, seq))
        assert hidden.shape == (batch, seq, 32)
        assert pooled.shape == (batch, 32)
    fixed = run(Bert(**_SIZE).build(), _inputs(1, 12))
    np.testing.assert_array_equal(run(model, _inputs(1, 12))[0], fixed[0])


@pytest.mark.parametrize("shape_only", [False, True])
def test_shape_inference_follows_the_symbolic_dimensions(shape_only):
    proto = ir.to_proto(Bert(**_SIZE, dynamic=True, shape_only=shape_only).build())
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    hidden, pooled = (
        [dim.dim_param or dim.dim_value for dim in output.type.tensor_type.shape.dim]
        for output in inferred.graph.output
    )
    assert hidden == ["batch", "seq", 32]
    assert pooled == ["batch", 32]
