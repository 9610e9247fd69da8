"""The contract of gradient rules: what an op's inputs get of the gradients of its outputs.

A rule is written for graphs with static shapes and emits standard ops, so that training steps run
wherever ONNX does. It is the reverse mode of automatic differentiation, op by op (Griewank and
Walther 2008, *Evaluating Derivatives*, chapter 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir


class GradientOps(Protocol):
    """Emits ops behind those of the forward pass; types and shapes of results are inferred."""

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """The one output of a new op of ONNX's own domain."""
        ...

    def ops(
        self, outputs: int, op_type: str, *inputs: ir.Value | None, **attributes: Any
    ) -> tuple[ir.Value, ...]:
        """The outputs of a new op with several."""
        ...

    def constant(self, value: npt.NDArray[Any]) -> ir.Value:
        """A constant tensor; equal ones are one value."""
        ...

    def like(self, value: ir.Value, number: float) -> ir.Value:
        """A scalar constant of the element type of `value`."""
        ...

    def reduced_to(self, gradient: ir.Value, operand: ir.Value) -> ir.Value:
        """The gradient summed over the dimensions along which `operand` was broadcast."""
        ...


@dataclass(frozen=True)
class GradientRequest:
    """Request to a gradient rule.

    Attributes:
        node: the op of the forward pass, whose inputs and outputs may be read again.
        gradients: for each output the gradient of the loss, of the output's shape and type; None
            if the loss does not depend on it.
        wanted: for each input whether its gradient is needed.
        ops: emits the ops of the gradient.
        version: opset version of ONNX's own domain that the model imports.
    """

    node: ir.Node
    gradients: tuple[ir.Value | None, ...]
    wanted: tuple[bool, ...]
    ops: GradientOps
    version: int

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """The static shape of a value of the forward pass."""
        shape = value.shape
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            raise ValueError(f"the shape of {value.name!r} is not static")
        return tuple(int(dim) for dim in shape)  # pyright: ignore[reportArgumentType]

    def attribute(self, name: str, default: Any) -> Any:
        """The plain value of an attribute of the op, or `default` where it is left out."""
        found = self.node.attributes.get(name)
        return default if found is None else found.value


GradientRule = Callable[[GradientRequest], Sequence[ir.Value | None]]
"""For each input its gradient, None where it is not wanted or is zero everywhere. Raises
`NotDifferentiable` for an op whose attributes ask for what the rule has no gradient of. Registered
as kind `gradient-rule` by the operator's name, with its domain in front where it is not
ONNX's own: `com.acme::Blend`."""


class NotDifferentiable(Exception):  # noqa: N818 - it is an answer
    """Says, in a sentence, why an op as it stands has no gradient."""


def zeros(shape: tuple[int, ...], like: ir.Value) -> npt.NDArray[Any]:
    """Zeros of a shape in the element type of a value.

    Raises:
        ValueError: if its type is unknown.
    """
    if like.dtype is None:
        raise ValueError(f"the type of {like.name!r} is unknown")
    return np.zeros(shape, like.dtype.numpy())
