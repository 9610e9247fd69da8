import numpy as np
import pytest

from mcm_compiler.contracts.gradients import NotDifferentiable
from mcm_passes.differentiation.rules.resizing import Axis, Filter, matrix_of

LINEAR = Filter("linear", "align_corners", "floor", -0.75, False, False)


def test_linear_weights_between_corners():
    due = [[1.0, 0.0], [2 / 3, 1 / 3], [1 / 3, 2 / 3], [0.0, 1.0]]
    np.testing.assert_allclose(matrix_of(Axis(2, 4, 2.0), LINEAR), due)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_weights_of_a_place_add_up_to_one(mode, antialias):
    how = Filter(mode, "half_pixel", "round_prefer_floor", -0.5, True, antialias)
    for axis in (Axis(7, 3, 3 / 7), Axis(3, 8, 8 / 3)):
        np.testing.assert_allclose(matrix_of(axis, how).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("mode", "axis"),
    [
        ("align_corners", Axis(5, 7, 1.5)),
        ("align_corners", Axis(4, 2, 0.6)),
        ("pytorch_half_pixel", Axis(3, 1, 0.5)),
        ("tf_crop_and_resize", Axis(5, 7, 1.5)),
    ],
)
def test_lengths_that_runtimes_cut_differently_have_no_rule(mode, axis):
    """onnxruntime, as PyTorch, takes 7 places for the length; onnx's reference takes 7.5."""
    how = Filter("linear", mode, "floor", -0.75, False, False)
    with pytest.raises(NotDifferentiable, match="give sizes instead of scales"):
        matrix_of(axis, how)
    exact = Axis(axis.size, axis.count, axis.count / axis.size)
    assert matrix_of(exact, how).shape == (axis.count, axis.size)


@pytest.mark.parametrize("mode", ["align_corners", "pytorch_half_pixel", "tf_crop_and_resize"])
def test_a_rounded_scale_is_none_of_these(mode):
    scale = float(np.float32(26 / 20))
    how = Filter("linear", mode, "floor", -0.75, False, False)
    matrices = [matrix_of(Axis(20, 26, one), how) for one in (scale, 26 / 20)]
    np.testing.assert_allclose(*matrices, atol=1e-5)
