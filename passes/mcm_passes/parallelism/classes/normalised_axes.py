"""Axes that several ops together normalise: layer norms and softmaxes that exporters spell out.

Sums over an axis may be left partial, so that rules alone would have a spelt-out normalisation
divided, with a reduction over all devices in the middle of it. What tells a normalisation from a
mere reduction, such as that of a loss, is that elements are divided by something that was reduced
from their own axis: `x / sqrt(mean(x**2) + eps)`, `exp(x) / sum(exp(x))`, or that the logarithm of
such a sum is taken from them: `x - log(sum(exp(x)))`.
"""

from __future__ import annotations

import onnx_ir as ir

Normalised = tuple[ir.Value, int, ir.Node, str]
"""A value, its dimension, the reducing op, and what the ops around it do."""

_NORMS = frozenset({"ReduceMean", "ReduceSumSquare", "ReduceL2", "ReduceL1", "ReduceSum"})
_LOGARITHMS = frozenset({"ReduceLogSumExp"})
_REDUCTIONS = _NORMS | _LOGARITHMS
_ALONG = frozenset(
    {"Abs", "Add", "Cast", "Clip", "Div", "Exp", "Expand", "Identity", "Log", "Max", "Mul", "Neg",
     "Pow", "Reciprocal", "Reshape", "Sqrt", "Squeeze", "Sub", "Unsqueeze", "Where"}
)  # fmt: skip
"""Ops through which a reduced value is followed."""

_MOST_STEPS = 24
"""Ops after a reduction that are looked at."""


def normalised_axes(model: ir.Model) -> list[Normalised]:
    """Axes of a model's main graph that are normalised along.

    Args:
        model: with shapes.
    """
    found: list[Normalised] = []
    reductions = [
        node
        for node in model.graph
        if node.op_type in _REDUCTIONS and node.domain in ("", "ai.onnx")
    ]
    for node in reductions:
        value = node.inputs[0]
        if value is None or value.shape is None:
            continue
        axes = _axes(node, len(value.shape))
        what = _normalisation(node, value, axes)
        if what is not None:
            found += [(value, axis, node, what) for axis in axes]
    return found


def _axes(node: ir.Node, rank: int) -> tuple[int, ...]:
    """Reduced axes; none where they are unknown."""
    attribute = node.attributes.get("axes")
    axes: list[int] | None = None
    if attribute is not None:
        axes = list(attribute.as_ints())
    elif len(node.inputs) > 1 and node.inputs[1] is not None:
        tensor = ir.convenience.get_const_tensor(node.inputs[1])
        if tensor is None:
            return ()
        axes = [int(axis) for axis in tensor.numpy().ravel()]
    if not axes:
        return tuple(range(rank))
    return tuple(sorted({axis % rank for axis in axes}))


def _normalisation(node: ir.Node, value: ir.Value, axes: tuple[int, ...]) -> str | None:
    """What the reduced value is used for, if it is to normalise `value` along `axes`."""
    shape = value.shape
    assert shape is not None
    kept = [axis for axis in axes if shape[axis] != 1]
    if not kept:
        return None
    is_softmax = _is_exponential(value)
    start = (node.outputs[0], node.op_type in _LOGARITHMS)
    pending, seen, steps = [start], {start[0]}, 0
    while pending and steps < _MOST_STEPS:
        reduced, is_logarithm = pending.pop(0)
        for use in reduced.uses():
            steps += 1
            user = use.node
            if user.op_type not in _ALONG or user.domain not in ("", "ai.onnx"):
                continue
            result = user.outputs[0]
            if result in seen:
                continue
            if result.shape == shape and user.op_type in ("Div", "Mul", "Sub"):
                if _divides(user, use.idx, is_logarithm):
                    return _name(node, is_softmax or is_logarithm)
                continue
            seen.add(result)
            if _is_narrow(result, value, kept):
                pending.append((result, is_logarithm or user.op_type == "Log"))
            elif user.op_type in ("Expand", "Mul", "Div"):
                # Spread over the axis first, or joined with a scale: `x * (scale / root)`.
                pending.append((result, is_logarithm))
    return None


def _divides(user: ir.Node, operand: int, is_logarithm: bool) -> bool:
    if user.op_type == "Sub":
        return is_logarithm and operand == 1
    return user.op_type == "Mul" or operand == 1


def _is_narrow(reduced: ir.Value, value: ir.Value, axes: list[int]) -> bool:
    """Whether the reduced axes are gone, or of size 1."""
    if reduced.shape is None or value.shape is None:
        return False
    if len(reduced.shape) < len(value.shape):
        return len(reduced.shape) <= len(value.shape) - len(axes)
    return all(reduced.shape[axis] == 1 for axis in axes if axis < len(reduced.shape))


def _is_exponential(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Exp"


def _name(node: ir.Node, is_softmax: bool) -> str:
    if is_softmax:
        return "softmax"
    return "layer normalisation" if node.op_type == "ReduceMean" else "normalisation"
