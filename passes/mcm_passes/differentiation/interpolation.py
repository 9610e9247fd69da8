"""The matrices by which an axis is resized.

They follow ONNX's definition of `Resize`: coordinates of the result are taken to those of the
operand, and a filter weighs what lies near.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.gradients import NotDifferentiable

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """How one axis is resized.

    Attributes:
        size: of the operand.
        count: of the result.
        scale: between the two, which need not be their ratio.
        low: where the region of interest begins, as a share of the size.
        high: where it ends.
    """

    size: int
    count: int
    scale: float
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class Filter:
    """What the attributes of the op say.

    Attributes:
        mode: `nearest`, `linear` or `cubic`.
        coordinates: `coordinate_transformation_mode`.
        rounding: `nearest_mode`.
        cubic: `cubic_coeff_a`.
        exclude_outside: whether only places inside weigh.
        antialias: whether the filter is stretched where the axis shrinks.
    """

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool
    antialias: bool


def matrix_of(axis: Axis, how: Filter) -> Matrix:
    """The weights of the places of an axis in those of the result, `[count, size]`.

    Raises:
        NotDifferentiable: for coordinates that have no rule.
    """
    found = np.zeros((axis.count, axis.size))
    places = _coordinates(axis, how.coordinates)
    outside = np.zeros(axis.count, bool)
    if how.coordinates == "tf_crop_and_resize":
        outside = (places < 0) | (places > axis.size - 1)
    stretch = min(1.0, axis.scale) if how.antialias else 1.0
    for row, place in enumerate(places):
        if outside[row]:
            continue
        for column, weight in _weights(float(place), axis.size, how, stretch):
            found[row, column] += weight
    return found


_WHOLE = 1e-3
"""Places by which a size may miss a whole number, since scales are rounded."""


def _depends_on_length(axis: Axis, mode: str) -> bool:
    """Whether places differ by whether the length of the result counts as cut to a whole number."""
    if mode == "pytorch_half_pixel":
        return axis.count == 1
    return mode in ("align_corners", "tf_crop_and_resize") and axis.count > 1 and axis.size > 1


def _coordinates(axis: Axis, mode: str) -> Matrix:
    """Where places of the result lie on the axis of the operand."""
    out = np.arange(axis.count, dtype=np.float64)
    exact = axis.scale * axis.size
    if abs(exact - axis.count) <= _WHOLE:
        exact = float(axis.count)
    elif _depends_on_length(axis, mode):
        raise NotDifferentiable(
            f"coordinate_transformation_mode={mode} of a scale that makes {exact:g} places of "
            f"{axis.size} has no gradient rule: onnxruntime and the reference of ONNX disagree "
            "on where they lie; give sizes instead of scales"
        )
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and exact > 1):
        return (out + 0.5) / axis.scale - 0.5
    if mode == "pytorch_half_pixel":
        return np.zeros_like(out)
    if mode == "half_pixel_symmetric":
        middle = axis.size / 2
        return middle * (1 - axis.count / exact) + (out + 0.5) / axis.scale - 0.5
    if mode == "align_corners":
        return out * (axis.size - 1) / (exact - 1) if exact != 1 else np.zeros_like(out)
    if mode == "asymmetric":
        return out / axis.scale
    if mode == "tf_crop_and_resize":
        if axis.count == 1:
            return np.full(1, 0.5 * (axis.low + axis.high) * (axis.size - 1))
        step = (axis.high - axis.low) * (axis.size - 1) / (exact - 1)
        return axis.low * (axis.size - 1) + out * step
    raise NotDifferentiable(f"coordinate_transformation_mode={mode} has no gradient rule")


def _weights(place: float, size: int, how: Filter, stretch: float) -> list[tuple[int, float]]:
    """Places of the operand and their weights in one place of the result."""
    if how.mode == "nearest":
        return [(min(max(_rounded(place, how.rounding), 0), size - 1), 1.0)]
    reach = (2.0 if how.mode == "cubic" else 1.0) / stretch
    near = range(math.floor(place - reach) + 1, math.ceil(place + reach) + 1)
    weighed: list[tuple[int, float]] = []
    for column in near:
        distance = abs(column - place) * stretch
        weight = _cubic(distance, how.cubic) if how.mode == "cubic" else max(0.0, 1.0 - distance)
        if how.exclude_outside and not 0 <= column < size:
            weight = 0.0
        weighed.append((min(max(column, 0), size - 1), weight))
    total = sum(weight for _, weight in weighed)
    return [(column, weight / total) for column, weight in weighed if weight]


def _rounded(place: float, mode: str) -> int:
    if mode == "round_prefer_ceil":
        return math.floor(place + 0.5)
    if mode == "floor":
        return math.floor(place)
    if mode == "ceil":
        return math.ceil(place)
    return math.ceil(place - 0.5)


def _cubic(distance: float, a: float) -> float:
    """The kernel of cubic convolution (Keys 1981, equation 4)."""
    if distance < 1:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    if distance < 2:
        return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return 0.0
