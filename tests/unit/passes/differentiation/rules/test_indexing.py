import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from tests.generators.appended_gradients import append_gradients


@pytest.mark.parametrize(("axis", "shape"), [(0, "[2,2,4]"), (1, "[3,2,2]"), (-1, "[3,2,2]")])
def test_rows_that_are_taken_twice_add_up(check, axis, shape):
    text = f"(float[3,4] x, int64[2,2] i) => (float{shape} y) {{ y = Gather<axis={axis}>(x, i) }}"
    check(text, i=[[0, 2], [2, -1]])


def test_narrow_indices(check):
    check("(float[3,4] x, int32[2] i) => (float[2,4] y) { y = Gather(x, i) }", i=np.int32([1, 1]))


@pytest.mark.parametrize(("axis", "shape"), [(0, "[4]"), (1, "[3]")])
def test_one_constant_index_leaves_zeros_around(check, axis, shape):
    text = (
        f"(float[3,4] x) => (float{shape} y) <int64 i = {{-1}}> {{ y = Gather<axis={axis}>(x, i) }}"
    )
    check(text)


def test_an_index_that_is_computed(check):
    check("(float[3,4] x, int64 i) => (float[4] y) { y = Gather(x, i) }", i=2)


def test_gather_elements(check):
    text = "(float[3,2] x, int64[2,2] i) => (float[2,2] y) { y = GatherElements<axis=0>(x, i) }"
    check(text, i=[[0, 2], [0, 1]])


def test_gather_nd(check):
    text = "(float[2,3,2] x, int64[2,2] i) => (float[2,2] y) { y = GatherND(x, i) }"
    check(text, i=[[0, 2], [0, 2]])
    text = (
        "(float[2,3,2] x, int64[2,2,1] i) => (float[2,2,2] y) { y = GatherND<batch_dims=1>(x, i) }"
    )
    check(text, i=[[[0], [2]], [[1], [1]]])


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter(check, reduction):
    option = f'reduction="{reduction}"'
    text = "(float[4,2] x, int64[2,1] i, float[2,2] u) => (float[4,2] y)"
    check(f"{text} {{ y = ScatterND<{option}>(x, i, u) }}", i=[[2], [0]])
    text = "(float[3,2] x, int64[1,2] i, float[1,2] u) => (float[3,2] y)"
    check(f"{text} {{ y = ScatterElements<axis=0, {option}>(x, i, u) }}", i=[[2, 0]])


def test_the_values_of_one_hot(check):
    text = "(int64[3] i, float[2] v) => (float[3,4] y) <int64 d = {4}> { y = OneHot(i, d, v) }"
    check(text, i=[1, 3, 1])


def test_a_scatter_that_keeps_the_largest_is_refused():
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 18]> graph (float[4] x, int64[1,1] i, float[1] u) => '
        '(float loss) { y = ScatterND<reduction="max">(x, i, u) loss = ReduceSum<keepdims=0>(y) }'
    )
    for index, node in enumerate(model.graph):
        node.name = f"n{index}"
    with pytest.raises(CompileError, match="reduction=max has no gradient rule") as caught:
        append_gradients(model, "loss", ["x"])
    assert [d.code for d in caught.value.diagnostics] == ["MCM-D031"]
