"""Gradients of ops that sample between places.

Along each axis `Resize` is a product with a matrix, and so is its gradient. `GridSample` weighs
what it takes by index, linearly or as cubic convolution does (Keys 1981).

They follow ONNX's definition of `Resize`: coordinates of the result are taken to those of the
operand, and a filter weighs what is near.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_passes.differentiation.composition import composed, numbers, text
from mcm_passes.differentiation.rules import operands

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
    """Attributes of the op.

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
    """Return whether places depend on the result's length being cut to a whole number."""
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


def _resize(request: GradientRequest) -> operands.Gradients:
    """Each axis that changes takes the gradient back by its matrix."""
    ops, gradient = request.ops, operands.arriving(request)
    how = Filter(
        text(request, "mode", "nearest"),
        text(request, "coordinate_transformation_mode", "half_pixel"),
        text(request, "nearest_mode", "round_prefer_floor"),
        float(request.attribute("cubic_coeff_a", -0.75)),
        bool(request.attribute("exclude_outside", 0)),
        bool(request.attribute("antialias", 0)),
    )
    if any(request.wanted[1:]):
        raise NotDifferentiable("its region of interest and its scales have no gradient rule")
    shape = list(request.shape(request.node.outputs[0]))
    for place, axis in _axes(request).items():
        matrix = matrix_of(axis, how)
        if axis.size == axis.count and np.array_equal(matrix, np.eye(axis.size)):
            continue
        shape[place] = axis.size
        weights = ops.constant(matrix.astype(operands.numpy_type(gradient)))
        if place == len(shape) - 1:
            gradient = ops.op("MatMul", gradient, weights)
            continue
        behind = math.prod(shape[place + 1 :])
        before = math.prod(shape[:place])
        rows = operands.reshaped(ops, gradient, (before, axis.count, behind))
        turned = ops.constant(np.ascontiguousarray(matrix.T).astype(operands.numpy_type(gradient)))
        gradient = operands.reshaped(ops, ops.op("MatMul", turned, rows), shape)
    return operands.placed(gradient, request)


def _axes(request: GradientRequest) -> dict[int, Axis]:
    """The axes that are resized, by their places."""
    x, y = operands.given(request, 0), request.node.outputs[0]
    shape, counts = request.shape(x), request.shape(y)
    rank = len(shape)
    axes = [axis % rank for axis in numbers(request, "axes", range(rank))]
    scales, sizes = operands.known_elements(request, 2), operands.known_elements(request, 3)
    if scales is None or not len(scales):
        assert sizes is not None
        ratios = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        policy = text(request, "keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [(max if policy == "not_smaller" else min)(ratios)] * len(ratios)
        scales = np.array(ratios)
    roi = operands.known_elements(request, 1)
    if text(request, "coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        roi = None
    found: dict[int, Axis] = {}
    for index, axis in enumerate(axes):
        low = 0.0 if roi is None else float(roi[index])
        high = 1.0 if roi is None else float(roi[index + len(axes)])
        found[axis] = Axis(shape[axis], counts[axis], float(scales[index]), low, high)
    return found


class _Grid:
    """A grid on its way to weighted places, one dimension of the operand after the other.

    Args:
        request: of a `GridSample`.
    """

    def __init__(self, request: GradientRequest) -> None:
        self._ops = request.ops
        self._mode = text(request, "mode", "linear").removeprefix("bi")
        self._padding = text(request, "padding_mode", "zeros")
        self._aligned = bool(request.attribute("align_corners", 0))

    def taps(self, grid: ir.Value, size: int) -> list[tuple[ir.Value, ir.Value]]:
        """Places on an axis and their weights, both of the shape of the grid.

        Args:
            grid: from -1 to 1 along the axis.
            size: of the axis.
        """
        ops = self._ops
        one = ops.like(grid, 1.0)
        half = ops.like(grid, (size - 1) / 2 if self._aligned else size / 2)
        place = ops.op("Mul", ops.op("Add", grid, one), half)
        if not self._aligned:
            place = ops.op("Sub", place, ops.like(place, 0.5))
        if (self._mode, self._padding) != ("cubic", "border"):
            # Of these onnxruntime brings each tap back, and not what lies between them.
            place = self._inside(place, size)
        if self._mode == "nearest":
            return [self._weighed(ops.op("Round", place), None, size)]
        low = ops.op("Floor", place)
        rest = ops.op("Sub", place, low)
        if self._mode == "linear":
            near = [(0.0, ops.op("Sub", one, rest)), (1.0, rest)]
        else:
            near = [(step, self._cubic(rest, step)) for step in (-1.0, 0.0, 1.0, 2.0)]
        return [
            self._weighed(ops.op("Add", low, ops.like(low, step)), weight, size)
            for step, weight in near
        ]

    def _cubic(self, rest: ir.Value, step: float) -> ir.Value:
        """Keys's kernel at the distance of a tap, which is within one of its two pieces."""
        ops, a = self._ops, -0.75
        distance = ops.op("Sub", ops.like(rest, step), rest)
        distance = ops.op("Neg", distance) if step <= 0 else distance
        inner = (a + 2, -(a + 3), 0.0, 1.0)
        outer = (a, -5 * a, 8 * a, -4 * a)
        weight: ir.Value | None = None
        for factor in inner if step in (0.0, 1.0) else outer:
            constant = ops.like(rest, factor)
            weight = constant if weight is None else ops.op(
                "Add", ops.op("Mul", weight, distance), constant
            )  # fmt: skip
        assert weight is not None
        return weight

    def _weighed(
        self, place: ir.Value, weight: ir.Value | None, size: int
    ) -> tuple[ir.Value, ir.Value]:
        """A place that exists, and its weight: none beyond an edge with zeros behind it."""
        ops = self._ops
        low, high = ops.like(place, 0.0), ops.like(place, float(size - 1))
        if self._padding == "reflection":
            place = ops.op("Round", self._inside(place, size))
        found = ops.op("Clip", place, low, high)
        if self._padding == "zeros":
            inside = ops.op("CastLike", ops.op("Equal", found, place), place)
            weight = inside if weight is None else ops.op("Mul", weight, inside)
        if weight is None:
            weight = ops.op("Add", ops.op("Mul", place, low), ops.like(place, 1.0))
        return ops.op("Cast", found, to=int(ir.DataType.INT64)), weight

    def _inside(self, place: ir.Value, size: int) -> ir.Value:
        """A coordinate brought back from beyond the edges."""
        ops = self._ops
        if self._padding == "border":
            return ops.op("Clip", place, ops.like(place, 0.0), ops.like(place, float(size - 1)))
        if self._padding != "reflection":
            return place
        low = 0.0 if self._aligned else -0.5
        span = float(size - 1 if self._aligned else size)
        if not span:
            return ops.op("Mul", place, ops.like(place, 0.0))
        # A wave of slopes 1 and -1 with its bottom at the lower edge.
        shifted = ops.op("Abs", ops.op("Sub", place, ops.like(place, low)))
        double = ops.like(place, 2.0 * span)
        rounds = ops.op("Floor", ops.op("Div", shifted, double))
        within = ops.op("Sub", shifted, ops.op("Mul", rounds, double))
        back = ops.op("Abs", ops.op("Sub", within, ops.like(place, span)))
        return ops.op("Sub", ops.like(place, span + low), back)


def _sampled(request: GradientRequest) -> list[ir.Value]:
    """The sum over all taps of what stands there times the weights along each axis."""
    ops, x, grid = request.ops, operands.given(request, 0), operands.given(request, 1)
    batch, channels, *size = request.shape(x)
    made = request.shape(request.node.outputs[0])
    points = math.prod(made[2:])
    flat = operands.reshaped(ops, x, (batch, channels, math.prod(size)))
    rows = operands.reshaped(ops, grid, (batch, points, len(size)))
    parts = ops.ops(len(size), "Split", rows, operands.ints(ops, [1] * len(size)), axis=2)
    sampler = _Grid(request)
    # The last number of a grid belongs to the first spatial dimension.
    taps = [
        sampler.taps(operands.reshaped(ops, part, (batch, 1, points)), extent)
        for part, extent in zip(reversed(parts), size, strict=True)
    ]
    terms: list[ir.Value] = []
    for chosen in itertools.product(*taps):
        index, weight = chosen[0]
        for (place, factor), extent in zip(chosen[1:], size[1:], strict=True):
            width = ops.constant(np.array(extent, np.int64))
            index = ops.op("Add", ops.op("Mul", index, width), place)
            weight = ops.op("Mul", weight, factor)
        wide = ops.op("Expand", index, operands.ints(ops, [batch, channels, points]))
        taken = ops.op("GatherElements", flat, wide, axis=2)
        terms.append(ops.op("Mul", taken, weight))
    total = terms[0] if len(terms) == 1 else ops.op("Sum", *terms)
    return [operands.reshaped(ops, total, made)]


RULES: dict[str, GradientRule] = {"Resize": _resize, "GridSample": composed(_sampled)}
