"""Caches whose sizes contradict each other."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.llama import Llama

HEAD = '<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]>\n'
DIMS = {"B": 1, "C": 1, "S": 1, "P": 4, "T": 5}


def grouped(new="T", groups=2):
    return (
        f"{HEAD} m (float[B,S,64] x, int64[B,T] mask, float[C,2,P,8] past_0,"
        f" float[C,2,P,8] past_1) => (float[B,S,32] y, float[C,2,{new},8] present_0,"
        f" float[C,2,{new},8] present_1) <int64[1] one = {{1}}, int64 second = {{1}}> {{"
        " sum = ReduceSum <keepdims = 0> (mask, one) less = Sub (sum, one)"
        " last = Cast <to = 6> (less) sizes = Shape (mask) length = Gather (sizes, second)"
        " total = Cast <to = 6> (length) y, present_0, present_1 ="
        f" com.microsoft.GroupQueryAttention <num_heads = {8 - 2 * groups},"
        f" kv_num_heads = {groups}> (x, , , past_0, past_1, last, total) }}"
    )


MASKED = f"""{HEAD} m (float[B,2,S,8] q, float[B,1,S,T] mask, float[C,2,P,8] past_0,
    float[C,2,P,8] past_1) => (float[B,2,S,8] y, float[D,E,F,G] present_0,
    float[H,I,J,K] present_1)
    {{ y, present_0, present_1 = Attention (q, q, q, mask, past_0, past_1) }}"""

APPENDED = f"""{HEAD} m (float[B,2,S,8] q, float[B,1,S,T] mask, float[C,2,P,8] past_0)
    => (float[D,E,F,G] y, float[H,I,J,K] present_0)
    {{ present_0 = Concat <axis = 2> (past_0, q)
    keys = Transpose <perm = [0, 1, 3, 2]> (present_0) s = MatMul (q, keys) y = Add (s, mask) }}"""

MULTIPLIED = APPENDED.replace("Add", "MatMul")


def imported(text, **sizes):
    return import_model(ir.from_proto(onnx.parser.parse_model(text)), "m", DIMS | sizes)


@pytest.mark.parametrize(
    ("text", "sizes", "why"),
    [
        (grouped(), {"T": 7}, "a cache of 4 tokens with 1 more has 5"),
        (grouped("P"), {"T": 7}, "one buffer of at least 7"),
        (grouped(), {"S": 2}, "a cache of 4 tokens with 2 more has 6"),
        (grouped("P"), {"S": 9, "T": 4}, "9 new tokens do not fit a cache of 4"),
        (grouped(), {"B": 2}, "the cache holds 1 sequences, and the batch has 2"),
        (grouped(groups=1), {}, "the cache has 2 heads, and the op 1"),
        (MASKED, {"T": 4}, "the mask has 4 columns, and past and new tokens are 5"),
        (APPENDED, {"T": 4}, "the mask has 4 columns, and past and new tokens are 5"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(text, sizes, why):
    with pytest.raises(CompileError) as caught:
        imported(text, **sizes)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-P083"
    assert why in found.message


def test_sizes_that_another_op_refuses_are_not_those_of_a_mask():
    with pytest.raises(CompileError) as caught:
        imported(MULTIPLIED, S=3, T=8)
    assert [one.code for one in caught.value.diagnostics] == ["MCM-I058"]


@pytest.mark.parametrize(
    ("text", "sizes"), [(grouped(), {}), (grouped("P"), {"P": 9}), (MASKED, {})]
)
def test_caches_that_grow_and_those_of_one_buffer_pass(text, sizes):
    assert not [note for note in imported(text, **sizes)[1] if note.code.startswith("MCM-P")]


def test_a_present_that_is_longer_than_the_file_says_is_a_warning():
    found = [note for note in imported(grouped(), P=8)[1] if note.code == "MCM-P084"]
    assert len(found) == 1
    assert (found[0].severity, found[0].at) == ("warning", "output 'present_0'")
    assert "[1, 2, 5, 8]" in found[0].message
    assert "[1, 2, 8, 8]: past and present are taken for one buffer" in found[0].message


@pytest.mark.parametrize("style", ["genai", "attention", "hf"])
def test_a_present_that_the_file_says_is_shorter_than_its_past_is_a_warning(style):
    sizes = {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "intermediate": 32, "vocab": 9}
    model = Llama(**sizes, style=style, past=7).build()
    for value in model.graph.outputs[1:]:
        value.shape = ir.Shape([1, 1, 4, 16])
    (found,) = (note for note in import_model(model, "m")[1] if note.code == "MCM-P084")
    assert "[1, 1, 4, 16] of 'present.0.key', and the op makes [1, 1, 8, 16]" in found.message
    assert "the past is [1, 1, 7, 16], and the sizes of the op are used" in found.message
