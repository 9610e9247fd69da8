"""Gradients written with Python's operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest
from mcm_passes.differentiation.rules.operands import arriving, given


@dataclass(frozen=True, eq=False)
class Term:
    """A value and what emits ops on it: each operator is an op.

    Numbers among the operands become scalar constants of the type of the value.
    """

    ops: GradientOps
    value: ir.Value

    def op(self, op_type: str, *others: Term | ir.Value | float, **attributes: Any) -> Term:
        """The only result of an op with the value as its first operand."""
        operands = [
            other.value if isinstance(other, Term)
            else other if isinstance(other, ir.Value)
            else self.ops.like(self.value, other)
            for other in others
        ]  # fmt: skip
        return Term(self.ops, self.ops.op(op_type, self.value, *operands, **attributes))

    def number(self, number: float) -> Term:
        """A scalar of the type of the value."""
        return Term(self.ops, self.ops.like(self.value, number))

    def select(self, then: Term, other: Term | float) -> Term:
        """`then` where this condition holds, `other` elsewhere."""
        return self.op("Where", then, other if isinstance(other, Term) else then.number(other))

    def __add__(self, other: Term | float) -> Term:
        return self.op("Add", other)

    def __radd__(self, number: float) -> Term:
        return self.number(number) + self

    def __sub__(self, other: Term | float) -> Term:
        return self.op("Sub", other)

    def __rsub__(self, number: float) -> Term:
        return self.number(number) - self

    def __mul__(self, other: Term | float) -> Term:
        return self.op("Mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.op("Div", other)

    def __neg__(self) -> Term:
        return self.op("Neg")

    def __lt__(self, other: Term | float) -> Term:
        return self.op("Less", other)

    def __gt__(self, other: Term | float) -> Term:
        return self.op("Greater", other)

    def __and__(self, other: Term) -> Term:
        return self.op("And", other)


def operand_terms(request: GradientRequest) -> tuple[Term, ...]:
    """The gradient that arrives, and the operands, none of which may be left out."""
    count = len(request.node.inputs)
    values = [arriving(request), *(given(request, index) for index in range(count))]
    return tuple(Term(request.ops, value) for value in values)
