import pytest


@pytest.mark.parametrize(
    ("equation", "shapes", "result"),
    [
        ("ij,jk->ik", ("2,3", "3,2"), "2,2"),
        ("bij,bjk->bki", ("2,2,3", "2,3,2"), "2,2,2"),
        ("i,j,ij->", ("2", "3", "2,3"), ""),
        ("ij,jk", ("2,3", "3,2"), "2,2"),
        ("...ij,...jk->...ik", ("1,2,3", "2,3,2"), "2,2,2"),
    ],
)
def test_products(check, equation, shapes, result):
    inputs = ", ".join(f"float[{shape}] x{i}" for i, shape in enumerate(shapes))
    names = ", ".join(f"x{i}" for i in range(len(shapes)))
    kind = f"float[{result}]" if result else "float"
    check(f'({inputs}) => ({kind} y) {{ y = Einsum<equation="{equation}">({names}) }}')


@pytest.mark.parametrize(("equation", "result"), [("ii->i", "3"), ("ij->j", "3"), ("ii->", "")])
def test_diagonals_and_sums_of_one_operand(check, equation, result):
    kind = f"float[{result}]" if result else "float"
    check(f'(float[3,3] x) => ({kind} y) {{ y = Einsum<equation="{equation}">(x) }}')


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [3, 4, 6])
def test_complex_numbers(check, inverse, length):
    text = f"(float[2,4,2] x) => (float[2,{length},2] y) <int64 n = {{{length}}}>"
    check(f"{text} {{ y = DFT<axis=1, inverse={inverse}>(x, n) }}", opset=19)


def test_one_side_of_real_numbers(check):
    text = "(float[5,2,1] x) => (float[3,2,2] y) <int64 axis = {0}>"
    check(f"{text} {{ y = DFT<onesided=1>(x, , axis) }}", opset=20)
