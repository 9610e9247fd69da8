import pytest

COORDINATES = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
]  # fmt: skip


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_coordinates(check, mode, coordinates):
    text = "(float[1,1,3,4] x) => (float[1,1,5,3] y) <int64[4] sizes = {1, 1, 5, 3}>"
    how = f'mode="{mode}", coordinate_transformation_mode="{coordinates}"'
    check(f"{text} {{ y = Resize<{how}>(x, , , sizes) }}", opset=19)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_ceil"])
def test_nearest_places(check, rounding):
    text = f'y = Resize<nearest_mode="{rounding}">(x, , , sizes)'
    check(f"(float[1,1,4] x) => (float[1,1,6] y) <int64[3] sizes = {{1, 1, 6}}> {{ {text} }}")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_shrinking_with_a_wide_filter(check, mode):
    text = "(float[1,1,6,2] x) => (float[1,1,3,2] y) <int64[4] sizes = {1, 1, 3, 2}>"
    check(f'{text} {{ y = Resize<mode="{mode}", antialias=1>(x, , , sizes) }}', opset=19)
