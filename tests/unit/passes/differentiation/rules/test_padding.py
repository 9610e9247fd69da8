import pytest


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_modes(check, mode):
    text = "(float[3,4] x) => (float[6,5] y) <int64[4] pads = {2, 1, 1, 0}>"
    check(f'{text} {{ y = Pad<mode="{mode}">(x, pads) }}', opset=19)


def test_the_value_around_gets_what_arrives_there(check):
    text = "(float[2,2] x, float v) => (float[2,5] y)"
    text += " <int64[2] pads = {1, 2}, int64[1] axes = {-1}>"
    check(f"{text} {{ y = Pad(x, pads, v, axes) }}", opset=18)
