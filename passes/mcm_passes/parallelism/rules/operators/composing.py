"""Building rules whose factors depend on the attributes of an op."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import wraps
from typing import Any

from mcm_compiler.contracts.sharding import rules
from mcm_compiler.contracts.sharding.templates import ordered_rule, rule_for_shapes

PASS = rules.FactorKind.PASS
REDUCE = rules.FactorKind.REDUCE
REPLICATE = rules.FactorKind.REPLICATE
HALO = rules.FactorKind.HALO
BLOCKED = rules.FactorKind.BLOCKED

Shape = tuple[int | None, ...]


class RuleBuilder:
    """Collects the factors of one rule; those without a name get letters."""

    def __init__(self) -> None:
        self._factors: list[rules.Factor] = []

    def dim(
        self,
        size: int | None,
        kind: rules.FactorKind = PASS,
        name: str = "",
        reduction: rules.Reduction | None = None,
    ) -> rules.Dim:
        """A dimension of one new factor; one of size 1 has none."""
        if size == 1:
            return ()
        how = reduction if reduction is not None and kind is REDUCE else "sum"
        self._factors.append(rules.Factor(name, size, kind, how))
        return (len(self._factors) - 1,)

    def dims(self, shape: Shape, kind: rules.FactorKind = PASS) -> list[rules.Dim]:
        """New factors for all dimensions of a tensor."""
        return [self.dim(size, kind) for size in shape]

    def rule(
        self,
        inputs: Sequence[Sequence[rules.Dim] | None],
        outputs: Sequence[Sequence[rules.Dim] | None],
    ) -> rules.ShardingRule:
        """The rule, without the factors that no dimension has."""
        return ordered_rule(self._factors, inputs, outputs)


def whole(facts: rules.OpFacts) -> rules.ShardingRule:
    """Every device runs the whole op."""
    build = RuleBuilder()
    inputs = [None if s is None else build.dims(s, REPLICATE) for s in facts.input_shapes]
    outputs = [None if s is None else build.dims(s, REPLICATE) for s in facts.output_shapes]
    return build.rule(inputs, outputs)


def known_shapes(
    inputs: int = 0, outputs: int = 0
) -> Callable[[Callable[..., rules.ShardingRule]], Callable[..., rules.ShardingRule]]:
    """Decorator of a maker of rules that needs shapes; where one is unknown, the op is `whole`.

    The maker gets them behind `facts`, those of operands first.

    Args:
        inputs: how many operands, from the first on.
        outputs: how many results, from the first on.
    """

    def decorate(maker: Callable[..., rules.ShardingRule]) -> Callable[..., rules.ShardingRule]:
        @wraps(maker)
        def make(facts: rules.OpFacts, **options: Any) -> rules.ShardingRule:
            shapes = facts.input_shapes[:inputs] + facts.output_shapes[:outputs]
            return whole(facts) if None in shapes else maker(facts, *shapes, **options)

        return make

    return decorate


def same_shape(
    facts: rules.OpFacts, shape: Shape, needed: Container[int] = ()
) -> rules.ShardingRule:
    """Every result has the first operand's dimensions, of which the axes `needed` are whole.

    Other operands are small, or read for their type alone.
    """
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i in needed else PASS) for i, s in enumerate(shape)]
    rest = [None] * (len(facts.input_shapes) - 1)
    return build.rule([dims, *rest], [dims] * len(facts.output_shapes))


def spelled(
    facts: rules.OpFacts,
    operands: Sequence[str],
    results: Sequence[str],
    sizes: Mapping[str, int | None] | None = None,
) -> rules.ShardingRule:
    """The rule of a template with a text for each operand and result.

    Those that the op leaves out at the end are left out. `sizes` are as of `rule_for_shapes`.
    """
    inputs = ", ".join(operands[: len(facts.input_shapes)])
    outputs = ", ".join(results[: len(facts.output_shapes)])
    return rule_for_shapes(f"{inputs} -> {outputs}", facts.input_shapes, facts.output_shapes, sizes)


def axis_of(facts: rules.OpFacts, default: int, rank: int, name: str = "axis") -> int:
    """The attribute `name` as an index from the front."""
    axis = int(facts.attributes.get(name, default))
    return axis + rank if axis < 0 else axis


def listed(facts: rules.OpFacts, operand: int, attribute: str) -> tuple[int, ...] | None:
    """Integers that are an operand in newer opsets and an attribute in older ones.

    Returns:
        None where the op has neither, or the values of the operand are not known (`is_given`
        tells one from the other).
    """
    if operand in facts.constants:
        return facts.constants[operand]
    found = facts.attributes.get(attribute)
    return None if found is None else tuple(int(i) for i in found)


def is_given(facts: rules.OpFacts, operand: int) -> bool:
    """Whether the op may have the operand; one that is left out before others counts as given."""
    return operand < len(facts.input_shapes)
