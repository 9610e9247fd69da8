import numpy as np
import pytest

from mcm_passes.differentiation.interpolation import Axis, Filter, matrix_of

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
