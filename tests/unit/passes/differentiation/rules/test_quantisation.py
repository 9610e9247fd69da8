import numpy as np
import pytest


@pytest.mark.parametrize(("scales", "axis"), [(2, 0), (3, 1), (1, 0)])
def test_scales_of_an_axis(check, scales, axis):
    zero = "{" + ", ".join("5" * scales) + "}"
    text = f"(int8[2,3] x, float[{scales}] s) => (float[2,3] y) <int8[{scales}] z = {zero}>"
    x = [[1, 2, 3], [-4, 5, -6]]
    check(f"{text} {{ y = DequantizeLinear<axis={axis}>(x, s, z) }}", opset=19, x=_bytes(x))


def test_scales_of_blocks(check):
    text = "(int8[2,4] x, float[2,2] s) => (float[2,4] y) <int8[2,2] z = {1, 2, 3, 4}>"
    text += " { y = DequantizeLinear<axis=1, block_size=2>(x, s, z) }"
    check(text, opset=21, x=_bytes([[1, 2, 3, 4], [-4, 5, -6, 7]]))


def _bytes(rows):
    return np.array(rows, np.int8)
