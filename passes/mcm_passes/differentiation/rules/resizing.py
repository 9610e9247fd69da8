"""Gradients of ops that sample between places.

Along each axis `Resize` is a product with a matrix, and so is its gradient. `GridSample` weighs
what it takes by index, linearly or as cubic convolution does (Keys 1981).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_passes.differentiation.composition import composed
from mcm_passes.differentiation.interpolation import Axis, Filter, matrix_of
from mcm_passes.differentiation.known_values import known_value
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    given,
    ints,
    numpy_type,
    operand,
    placed,
    reshaped,
)
from mcm_passes.differentiation.windows import numbers, text


def _resize(request: GradientRequest) -> Gradients:
    """Each axis that changes takes the gradient back by its matrix."""
    ops, gradient = request.ops, arriving(request)
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
        weights = ops.constant(matrix.astype(numpy_type(gradient)))
        if place == len(shape) - 1:
            gradient = ops.op("MatMul", gradient, weights)
            continue
        behind = math.prod(shape[place + 1 :])
        before = math.prod(shape[:place])
        rows = reshaped(ops, gradient, (before, axis.count, behind))
        turned = ops.constant(np.ascontiguousarray(matrix.T).astype(numpy_type(gradient)))
        gradient = reshaped(ops, ops.op("MatMul", turned, rows), shape)
    return placed(gradient, request)


def _axes(request: GradientRequest) -> dict[int, Axis]:
    """The axes that are resized, by their places."""
    x, y = given(request, 0), request.node.outputs[0]
    shape, counts = request.shape(x), request.shape(y)
    rank = len(shape)
    axes = [axis % rank for axis in numbers(request, "axes", range(rank))]
    scales, sizes = _floats(request, 2), _floats(request, 3)
    if scales is None or not len(scales):
        assert sizes is not None
        ratios = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        policy = text(request, "keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [(max if policy == "not_smaller" else min)(ratios)] * len(ratios)
        scales = np.array(ratios)
    roi = _floats(request, 1)
    if text(request, "coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        roi = None
    found: dict[int, Axis] = {}
    for index, axis in enumerate(axes):
        low = 0.0 if roi is None else float(roi[index])
        high = 1.0 if roi is None else float(roi[index + len(axes)])
        found[axis] = Axis(shape[axis], counts[axis], float(scales[index]), low, high)
    return found


def _floats(request: GradientRequest, index: int) -> npt.NDArray[Any] | None:
    value = operand(request, index)
    if value is None:
        return None
    known = known_value(value)
    if known is None:
        raise NotDifferentiable(f"input {index} is not constant")
    return known.reshape(-1)


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
        """Keys's kernel at the distance of a tap, which lies within one of its two pieces."""
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
    ops, x, grid = request.ops, given(request, 0), given(request, 1)
    batch, channels, *size = request.shape(x)
    made = request.shape(request.node.outputs[0])
    points = math.prod(made[2:])
    flat = reshaped(ops, x, (batch, channels, math.prod(size)))
    rows = reshaped(ops, grid, (batch, points, len(size)))
    parts = ops.ops(len(size), "Split", rows, ints(ops, [1] * len(size)), axis=2)
    sampler = _Grid(request)
    # The last number of a grid belongs to the first spatial dimension.
    taps = [
        sampler.taps(reshaped(ops, part, (batch, 1, points)), extent)
        for part, extent in zip(reversed(parts), size, strict=True)
    ]
    terms: list[ir.Value] = []
    for chosen in itertools.product(*taps):
        index, weight = chosen[0]
        for (place, factor), extent in zip(chosen[1:], size[1:], strict=True):
            width = ops.constant(np.array(extent, np.int64))
            index = ops.op("Add", ops.op("Mul", index, width), place)
            weight = ops.op("Mul", weight, factor)
        wide = ops.op("Expand", index, ints(ops, [batch, channels, points]))
        taken = ops.op("GatherElements", flat, wide, axis=2)
        terms.append(ops.op("Mul", taken, weight))
    total = terms[0] if len(terms) == 1 else ops.op("Sum", *terms)
    return [reshaped(ops, total, made)]


RULES: dict[str, GradientRule] = {"Resize": _resize, "GridSample": composed(_sampled)}
