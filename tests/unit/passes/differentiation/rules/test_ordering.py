import pytest

MODES = [(0, 0), (1, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize(("exclusive", "reverse"), MODES)
def test_running_sums(check, exclusive, reverse):
    text = "(float[2,3] x) => (float[2,3] y) <int64 axis = {1}>"
    check(f"{text} {{ y = CumSum<exclusive={exclusive}, reverse={reverse}>(x, axis) }}")


@pytest.mark.parametrize("largest", [0, 1])
def test_largest_elements(check, largest):
    text = "(float[2,4] x) => (float[2,2] y) <int64[1] k = {2}>"
    check(f"{text} {{ y, places = TopK<largest={largest}>(x, k) }}")
