"""What rules read off an op and its operands, and small things that they emit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, NotDifferentiable, zeros
from mcm_passes.differentiation.known_values import known_value

Gradients = Sequence[ir.Value | None]


def operand(request: GradientRequest, index: int) -> ir.Value | None:
    """An input of the op, or None where it is left out."""
    inputs = request.node.inputs
    return inputs[index] if index < len(inputs) else None


def given(request: GradientRequest, index: int) -> ir.Value:
    """An input that the op cannot leave out.

    Raises:
        ValueError: if it does.
    """
    value = operand(request, index)
    if value is None:
        raise ValueError(f"{request.node.op_type} has no input {index}")
    return value


def arriving(request: GradientRequest, index: int = 0) -> ir.Value:
    """The gradient of an output that has one, as the first of an op with one output does.

    Raises:
        NotDifferentiable: if the loss depends on another output alone.
    """
    gradient = request.gradients[index]
    if gradient is None:
        raise NotDifferentiable(f"the loss depends on another output than output {index}")
    return gradient


def known_numbers(request: GradientRequest, index: int) -> list[int] | None:
    """The integers of a constant input, or None where it is left out.

    Raises:
        NotDifferentiable: if it is not constant.
    """
    value = operand(request, index)
    if value is None:
        return None
    known = known_value(value)
    if known is None:
        raise NotDifferentiable(f"input {index} is not constant")
    return [int(number) for number in known.reshape(-1)]


def placed(gradient: ir.Value | None, request: GradientRequest, index: int = 0) -> Gradients:
    """A gradient for one input and none for the others."""
    found: list[ir.Value | None] = [None] * len(request.node.inputs)
    found[index] = gradient
    return found


def ints(ops: GradientOps, numbers: Sequence[int]) -> ir.Value:
    """A constant int64 vector."""
    return ops.constant(np.array(numbers, np.int64))


def reshaped(ops: GradientOps, value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A value in another shape, or itself where it has that."""
    own = cast("ir.Shape", value.shape)
    if tuple(own.numpy()) == tuple(shape):
        return value
    # A zero in the target of a Reshape means the dimension of its operand, unless told otherwise.
    empty: dict[str, Any] = {} if math.prod(shape) else {"allowzero": 1}
    return ops.op("Reshape", value, ints(ops, shape), **empty)


def filled(ops: GradientOps, shape: Sequence[int], like: ir.Value) -> ir.Value:
    """Zeros of a shape in the type of a value."""
    return ops.constant(zeros(tuple(shape), like))


def numpy_type(value: ir.Value) -> npt.DTypeLike:
    """The element type of a value in numpy.

    Raises:
        ValueError: if it is unknown.
    """
    if value.dtype is None:
        raise ValueError(f"the type of {value.name!r} is unknown")
    return value.dtype.numpy()


def zero(request: GradientRequest) -> Gradients:
    """The rule of an op that is constant almost everywhere, or whose inputs only specify."""
    return [None] * len(request.node.inputs)
