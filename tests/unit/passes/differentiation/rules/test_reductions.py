import pytest

KINDS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSumExp",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_reductions(check, kind):
    # One axis that goes, two that stay, and all of them.
    text = "(float[2,3,2] x) => (float[2,2] y) <int64[1] a = {1}>"
    check(f"{text} {{ y = {kind}<keepdims=0>(x, a) }}")
    check(f"(float[2,3] x) => (float[1,3] y) <int64[1] a = {{-2}}> {{ y = {kind}(x, a) }}")
    check(f"(float[2,3] x) => (float y) {{ y = {kind}<keepdims=0>(x) }}")


def test_logarithm_of_a_sum_of_positive_numbers(check):
    check("(float[2,3] x) => (float y) { y = ReduceLogSum<keepdims=0>(x) }", low=0.3)


@pytest.mark.parametrize(
    "op",
    [
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
    ],
)  # fmt: skip
def test_a_reduction_over_no_axes(check, op):
    """Squares, logarithms and sizes are taken all the same."""
    text = f"(float[2,3] x) => (float[2,3] y) {{ y = {op}<noop_with_empty_axes=1>(x) }}"
    sign = 1.0 if op == "ReduceLogSum" else -1.0
    check(text, x=[[0.5, 1.5, 0.7], [2.0, sign * 0.6, sign * 1.1]])


@pytest.mark.parametrize("zeros", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.5, 2.0, 3.0]])
def test_products_with_zeros(check, zeros):
    check("(float[3] x) => (float y) { y = ReduceProd<keepdims=0>(x) }", x=zeros)


def test_equal_elements_share_the_gradient_of_their_maximum(check):
    text = "(float[3] x, float[1] z) => (float y) { p = Concat<axis=0>(x, z, z)"
    check(f"{text} y = ReduceMax<keepdims=0>(p) }}", x=[0.1, 0.2, 0.3], z=[0.7])


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_softmax(check, kind, axis):
    check(f"(float[2,3,2] x) => (float[2,3,2] y) {{ y = {kind}<axis={axis}>(x) }}")


def test_hardmax_is_constant_almost_everywhere(check):
    check("(float[2,3] x) => (float[2,3] y) { y = Hardmax(x) }")
