"""Rules for given shapes: from templates, and put in order when they are built piece by piece."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from string import ascii_lowercase

from mcm_compiler.contracts.sharding.notation import Item, RuleTemplate, read_template, refuse
from mcm_compiler.contracts.sharding.rules import Dim, Dims, Factor, FactorKind, ShardingRule

Shape = tuple[int | None, ...]
"""Sizes of the dimensions of a tensor, None where unknown."""


def rule_for_shapes(
    text: str,
    inputs: Sequence[Shape | None],
    outputs: Sequence[Shape | None],
    sizes: Mapping[str, int | None] | None = None,
) -> ShardingRule:
    """The rule that a template stands for, given shapes.

    Dimensions of size 1 are never divided, so that a factor of size 1 is left out and one that
    is broadcast is missing where it is. Operands of the text that the op does not have are
    dropped; one whose shape is unknown is read whole. The size of a factor with a halo is that
    of the first result that has it.

    Raises:
        CompileError: as `parse_rule`, and MCM-S004 for a rank that does not fit, MCM-S005 for
            sizes that contradict each other.
    """
    template = read_template(text)
    if len(inputs) > len(template.inputs) or len(outputs) > len(template.outputs):
        had = f"{len(inputs)} operands and {len(outputs)} results"
        refuse("MCM-S004", f"an op with {had} does not fit the rule", text)
    return _Expansion(text, template, inputs, outputs, dict(sizes or {})).rule()


def ordered_rule(
    factors: Sequence[Factor],
    inputs: Sequence[Sequence[Dim] | None],
    outputs: Sequence[Sequence[Dim] | None],
) -> ShardingRule:
    """A rule whose factors are in the order in which they are written; unused ones are dropped.

    Factors without a name get the first letters that are free. Equal texts and sizes then mean
    equal rules.
    """
    used: dict[int, int] = {}
    for side in (inputs, outputs):
        for dims in side:
            for dim in dims or ():
                for factor in dim:
                    used.setdefault(factor, len(used))
    taken = {factors[f].name for f in used}
    free = (n for n in chain(ascii_lowercase, (f"f{i}" for i in count())) if n not in taken)
    named = tuple(replace(factors[f], name=factors[f].name or next(free)) for f in used)

    def renumbered(dims: Sequence[Dim] | None) -> Dims | None:
        return None if dims is None else tuple([tuple([used[f] for f in dim]) for dim in dims])

    return ShardingRule(named, tuple(map(renumbered, inputs)), tuple(map(renumbered, outputs)))


class _Expansion:
    """A template on its way to a rule."""

    def __init__(
        self,
        text: str,
        template: RuleTemplate,
        inputs: Sequence[Shape | None],
        outputs: Sequence[Shape | None],
        sizes: dict[str, int | None],
    ) -> None:
        self.text = text
        self.factors = list(template.factors)
        shapes = (inputs, outputs)
        sides = (template.inputs, template.outputs)
        ranks = [
            len(shape) - len(items) + 1
            for given, side in zip(shapes, sides, strict=True)
            for shape, items in zip(given, side, strict=False)
            if shape is not None and items is not None and None in items
        ]
        self.batch = self._batch_factors(max(ranks, default=0))
        self.sides = tuple(
            [self._placed(s, i) for s, i in zip(given, side, strict=False)]
            for given, side in zip(shapes, sides, strict=True)
        )
        self.sizes = [sizes.get(f.name) for f in self.factors]
        self._single_sizes()
        self._compound_sizes()

    def rule(self) -> ShardingRule:
        """Without factors of size 1 and without those that are nowhere."""
        inputs, outputs = (
            [None if placed is None else self._divided(placed) for placed in side]
            for side in self.sides
        )
        factors = [
            Factor(f.name, self.sizes[i], f.kind, f.reduction) for i, f in enumerate(self.factors)
        ]
        return ordered_rule(factors, inputs, outputs)

    def _batch_factors(self, rank: int) -> tuple[int, ...]:
        if rank < 0:
            refuse("MCM-S004", "an operand has fewer dimensions than the rule", self.text)
        taken = {f.name for f in self.factors}
        names = [c for c in ascii_lowercase if c not in taken]
        names += [f"d{i}" for i in range(rank) if f"d{i}" not in taken]
        first = len(self.factors)
        self.factors += [Factor(name) for name in names[:rank]]
        return tuple(range(first, first + rank))

    def _placed(
        self, shape: Shape | None, items: tuple[Item, ...] | None
    ) -> list[tuple[tuple[int, ...], int | None]] | None:
        """Each dimension with its size; None for an operand that is read whole."""
        if shape is None or items is None:
            return None
        dims: list[tuple[int, ...]] = []
        stars = len(shape) - len(items) + 1
        for item in items:
            if item is None:
                start = len(self.batch) - stars
                dims += [(f,) for f in self.batch[start:]] if stars > 0 else []
            else:
                dims.append(item)
        if len(dims) != len(shape):
            refuse("MCM-S004", f"an operand of {len(shape)} dimensions does not fit", self.text)
        return list(zip(dims, shape, strict=True))

    def _single_sizes(self) -> None:
        # Results first: it is theirs that a window makes.
        for placed in (*self.sides[1], *self.sides[0]):
            for dim, size in placed or ():
                if len(dim) != 1 or size is None:
                    continue
                factor = dim[0]
                known = self.sizes[factor]
                if known is None or known == 1:
                    self.sizes[factor] = size
                elif size not in (1, known) and self.factors[factor].kind is not FactorKind.HALO:
                    name = self.factors[factor].name
                    refuse("MCM-S005", f"'{name}' is {known} and {size}", self.text)

    def _compound_sizes(self) -> None:
        for placed in (*self.sides[1], *self.sides[0]):
            for dim, size in placed or ():
                if len(dim) < 2 or size in (None, 1):
                    continue
                unknown = [f for f in dim if self.sizes[f] is None]
                rest = math.prod(self.sizes[f] or 1 for f in dim)
                if len(unknown) == 1 and rest and size % rest == 0:
                    self.sizes[unknown[0]] = size // rest
                elif len(unknown) == 1 or (not unknown and rest != size):
                    names = " ".join(self.factors[f].name for f in dim)
                    refuse("MCM-S005", f"({names}) is {rest} and {size}", self.text)

    def _divided(self, placed: list[tuple[tuple[int, ...], int | None]]) -> Dims:
        return tuple(
            () if size == 1 else tuple(f for f in dim if self.sizes[f] != 1) for dim, size in placed
        )
