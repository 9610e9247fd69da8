"""Sizes of caches and masks from the option `context`."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.shapes.open_sizes import context_sizes


def decoder(past: int | str, present: int | str, mask: int | str = "total") -> ir.Model:
    """A cache that grows, or is one buffer."""
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    made = onnx.helper.make_tensor_value_info
    reads = [
        made("input_ids", whole, ["batch", "seq"]),
        made("attention_mask", whole, ["batch", mask]),
        made("past_key_values.0.key", real, ["batch", 2, past, 8]),
    ]
    gives = [made("present.0.key", real, ["batch", 2, present, 8])]
    return ir.from_proto(onnx.helper.make_model(onnx.helper.make_graph([], "m", reads, gives)))


@pytest.mark.parametrize(
    ("model", "dims", "found"),
    [
        (decoder("past", "total"), {}, {"seq": 1, "past": 63, "total": 64}),
        (decoder("past", "total"), {"seq": 8}, {"seq": 8, "past": 56, "total": 64}),
        (decoder("past", "total"), {"batch": 4}, {"batch": 4, "seq": 1, "past": 63, "total": 64}),
        # One buffer has room for the new tokens too.
        (decoder("most", "most"), {}, {"seq": 1, "most": 64, "total": 64}),
        (decoder("most", "most"), {"most": 80}, {"seq": 1, "most": 80, "total": 64}),
        # Formulas follow from their names.
        (decoder("past", "past + seq", "past + seq"), {}, {"seq": 1, "past": 63}),
    ],
)
def test_lengths_follow_from_the_context(model, dims, found):
    assert context_sizes(model, 64, dims) == found


def test_a_cache_whose_present_has_another_name_has_a_length():
    model = decoder("past", "total")
    model.graph.outputs[0].name = "out"
    assert context_sizes(model, 64, {}) == {"seq": 1, "past": 63, "total": 64}


@pytest.mark.parametrize(
    ("model", "context", "dims", "said"),
    [
        (decoder(31, 32, 32), 64, {}, "no input that is a cache has a length that is open"),
        (decoder("past", "total"), 64, {"past": 12}, "'past' would be 63, and 'past' is 12"),
        (decoder("past", "total"), 4, {"seq": 12}, "a step has 8 more"),
    ],
)
def test_a_context_that_cannot_be_is_refused(model, context, dims, said):
    with pytest.raises(CompileError) as refused:
        context_sizes(model, context, dims)
    (fault,) = refused.value.diagnostics
    assert fault.code == "MCM-U009"
    assert said in fault.message
