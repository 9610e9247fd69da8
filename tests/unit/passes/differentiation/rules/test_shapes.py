import pytest

X = "(float[2,3,4] x) => (float{} y) <{}> {{ y = {} }}"


@pytest.mark.parametrize(
    ("shape", "constants", "op"),
    [
        ("[6,4]", "int64[2] s = {-1, 4}", "Reshape(x, s)"),
        ("[6,4]", "", "Flatten<axis=2>(x)"),
        ("[2,1,3,4]", "int64[1] a = {1}", "Unsqueeze(x, a)"),
        ("[4,2,3]", "", "Transpose<perm=[2,0,1]>(x)"),
        ("[4,3,2]", "", "Transpose(x)"),
        ("[2,4,3,4]", "int64[4] s = {2, 4, 3, 4}", "Expand(z, s)"),
    ],
)
def test_moved_elements(check, shape, constants, op):
    text = X.format(shape, constants, op)
    if "Expand" in op:
        text = text.replace("{ y", "{ a = Constant<value_ints=[1]>() z = Unsqueeze(x, a) y")
    check(text)


def test_squeeze(check):
    check("(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }")


def test_concat_gives_each_part_its_own(check):
    check("(float[2,3] a, float[2,1] b) => (float[2,7] y) { y = Concat<axis=1>(a, b, a) }")
    check("(float[2,3] a) => (float[2,3] y) { y = Concat<axis=1>(a) }")


def test_split_fills_parts_that_nobody_reads_with_zeros(check):
    text = "(float[5,2] x) => (float[1,2] y) <int64[3] s = {2, 1, 2}> { a, y, b = Split(x, s) }"
    check(text)
    check("(float[2,5] x) => (float[2,2] b) { a, b = Split<axis=1, num_outputs=2>(x) }")


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "shape"),
    [
        ("1", "3", "0", "1", "[2,4]"),
        ("-2", "9223372036854775807", "1", "1", "[5,2]"),
        ("0", "5", "0", "2", "[3,4]"),
        ("-1", "-9223372036854775807", "0", "-1", "[5,4]"),
        ("3", "0", "1", "-2", "[5,2]"),
        ("4", "1", "0", "1", "[0,4]"),
    ],
)
def test_slices(check, starts, ends, axes, steps, shape):
    given = ", ".join(
        f"int64[1] {name} = {{{value}}}"
        for name, value in (("s", starts), ("e", ends), ("a", axes), ("t", steps))
    )
    check(f"(float[5,4] x) => (float{shape} y) <{given}> {{ y = Slice(x, s, e, a, t) }}")


def test_slices_along_several_axes(check):
    text = "(float[5,4] x) => (float[2,2] y) <int64[2] s = {1, 0}, int64[2] e = {3, 4}, "
    check(text + "int64[2] a = {0, 1}, int64[2] t = {1, 2}> { y = Slice(x, s, e, a, t) }")
    check(text.replace("[2,2] y", "[2,4] y") + "int64 z = {0}> { y = Slice(x, s, e) }")
