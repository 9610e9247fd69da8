import pytest


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks(check, mode):
    text = f'y = DepthToSpace<blocksize=2, mode="{mode}">(x)'
    check(f"(float[1,8,1,2] x) => (float[1,2,2,4] y) {{ {text} }}")


def test_blocks_back(check):
    check("(float[1,1,4,2] x) => (float[1,4,2,1] y) { y = SpaceToDepth<blocksize=2>(x) }")


def test_copies_add_up(check):
    text = "(float[2,3] x) => (float[4,9] y) <int64[2] r = {2, 3}>"
    check(f"{text} {{ y = Tile(x, r) }}")


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles(check, upper):
    check(f"(float[3,3] x) => (float[3,3] y) {{ y = Trilu<upper={upper}>(x) }}")


def test_rows_that_are_turned(check):
    text = "(float[4,2] x, int64[2] n) => (float[4,2] y)"
    check(f"{text} {{ y = ReverseSequence<time_axis=0, batch_axis=1>(x, n) }}", n=[3, 2])
