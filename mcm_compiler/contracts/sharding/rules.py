"""The contract of sharding rules: which dimensions of an op may be divided together.

A rule also says what then has to be done to the results.

A rule names the *factors* of an op, the loops of an einsum-like reading of it, and says which of
them every dimension of every operand and result is made of. Its text form is read and written by
`parse_rule` and `str`:

    b m k+, k+ n -> b m n         a batched product: a sum over `k` is left partial
    a (h d) -> a h d              a reshape: `h` is the major factor of the second dimension
    a !n -> a !n                  a softmax along `n`, which has to be whole
    a (!c d) -> a d, a d          a split: every device has its part of `d` of both results
    b y~ x~ -> b y~ x~            a window slides along `y` and `x`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

Reduction = Literal["sum", "max", "min", "prod", "mean"]
"""How partial results of an op whose reduced factor is divided are put together."""


class FactorKind(Enum):
    """Requirement for dividing a factor over devices."""

    PASS = ""
    """Nothing: every device computes its part of the results."""
    REDUCE = "+"
    """Every device computes a partial result of full size; see `Factor.reduction`."""
    REPLICATE = "!"
    """It cannot be divided: the op needs the factor as a whole."""
    HALO = "~"
    """A window slides along it, so that neighbours need each other's edges."""
    BLOCKED = "/"
    """A part of it would be no regular part elsewhere (pieces that nothing divides in common)."""


@dataclass(frozen=True)
class Factor:
    """One loop of an op.

    Attributes:
        name: unique in its rule.
        size: extent, or None where unknown.
        kind: what dividing it asks for.
        reduction: for `REDUCE`, how partial results are put together; "sum" otherwise.
    """

    name: str
    size: int | None = None
    kind: FactorKind = FactorKind.PASS
    reduction: Reduction = "sum"

    def __str__(self) -> str:
        if self.kind is FactorKind.REPLICATE:
            return f"!{self.name}"
        shown = self.reduction if self.kind is FactorKind.REDUCE else "sum"
        return f"{self.name}{self.kind.value}{'' if shown == 'sum' else shown}"


Dim = tuple[int, ...]
"""Factors of a dimension by index, major to minor; empty for one that is never divided (size 1,
or broadcast). The first that is not whole can be divided: each point of those before it has a run
of consecutive elements, a part of which is in every part of the dimension."""

Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class ShardingRule:
    """Which factors every dimension of an op's operands and results is made of.

    Attributes:
        factors: all of them.
        inputs: of each operand its dimensions; None for an operand that is left out or that every
            device reads as a whole, whatever its rank.
        outputs: of each result its dimensions; None as for operands.
    """

    factors: tuple[Factor, ...]
    inputs: tuple[Dims | None, ...]
    outputs: tuple[Dims | None, ...]

    def __str__(self) -> str:
        """The rule as `parse_rule` reads it; sizes are not written."""
        sides = (", ".join(map(self._operand, side)) for side in (self.inputs, self.outputs))
        return " -> ".join(sides).strip()

    def _operand(self, dims: Dims | None) -> str:
        if dims is None:
            return "_"
        return " ".join(map(self._dim, dims)) if dims else "[]"

    def _dim(self, dim: Dim) -> str:
        names = " ".join(str(self.factors[factor]) for factor in dim)
        return f"({names})" if len(dim) > 1 else names or "1"


@dataclass(frozen=True)
class OpFacts:
    """Facts about an op that a rule may depend on.

    Attributes:
        op_type: name of the operator.
        domain: of the operator; empty for that of ONNX.
        version: opset version that the model imports.
        attributes: plain Python values by name (int, float, str, bytes, tuples of these); tensors
            and graphs are left out.
        input_shapes: of each operand, None for one that is left out or of unknown rank; unknown
            sizes are None.
        output_shapes: likewise.
        constants: values of small integer operands that are known, flat, by operand index.
    """

    op_type: str
    domain: str
    version: int
    attributes: Mapping[str, Any]
    input_shapes: tuple[tuple[int | None, ...] | None, ...]
    output_shapes: tuple[tuple[int | None, ...] | None, ...]
    constants: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


RuleMaker = Callable[[OpFacts], ShardingRule]
"""The rule of one op; pure. Registered as kind `sharding-rule` by the operator's name,
with its domain in front where it is not ONNX's own: `com.acme::Blend`."""
