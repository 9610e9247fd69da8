"""Ops that a plan divided, followed part by part.

For each value of a chip that is none of the model's it is told which part of one it holds: certain
indices along an axis, or what some units of a sum contribute. What an op makes of such parts
follows from the law of its type; constants are compared byte by byte with slices of the model's.
Where parts are put together again in order and without a gap, or all contributions are added, the
model's value is there.

Whoever tells lies here is refused; an op whose type or axis has no law, and what only reads from
such ops, is left to runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from mcm_compiler.equivalence.parts.located_slices import LocatedSlices
from mcm_compiler.equivalence.parts.masked_look_ups import MaskedLookUps, is_nothing
from mcm_compiler.equivalence.parts.part_laws import Law, has_law, law_of
from mcm_compiler.equivalence.parts.source_pieces import SourcePieces
from mcm_compiler.equivalence.parts.value_views import (
    Intervals,
    Piece,
    length,
    merged,
    part_of,
    scaled,
)
from mcm_compiler.equivalence.parts.view_ops import VIEW_OPS, viewed
from mcm_compiler.equivalence.values.graph_walk import Numbers
from mcm_compiler.equivalence.values.source_values import SourceValues
from mcm_compiler.equivalence.values.value_numbers import OpKey, OutputKey, ValueNumbers

COMBINERS = frozenset({"Add", "Max", "Min", "Mul"})

MAX_SEEDS = 4
"""Operands from which it is tried to tell the part that an op computes."""


@dataclass(frozen=True)
class Contribution:
    """What some units of a sum contribute to a value.

    Attributes:
        value: number of the value of the model.
        combined: the op that puts contributions together.
        extent: all units.
        units: those that are in.
        counted: whether what is to be added once is in.
    """

    value: int
    combined: str
    extent: int
    units: Intervals
    counted: bool

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return self.counted and self.units == ((0, self.extent),)


@dataclass(frozen=True)
class _Part:
    """Which part of an op of the model another op computes."""

    law: Law
    units: Intervals
    extent: int
    counted: bool


class PlannedParts:
    """Follows parts of values over the chips.

    Args:
        numbers: the table.
        source: the model.
        sums: whether sums may be divided, which changes the order of what is added.

    Attributes:
        explained: numbers of values that only serve to look up rows of a part of a table.
        excused: numbers of what ops without a law make, and of what depends on them.
    """

    def __init__(self, numbers: ValueNumbers, source: SourceValues, *, sums: bool = True) -> None:
        self._numbers = numbers
        self._divides_sums = sums
        self._source = SourcePieces(numbers, source)
        self._located = LocatedSlices(numbers)
        self._look_ups = MaskedLookUps(numbers, self._source, self._located, source.names)
        self._pieces: dict[int, Piece] = {}
        self._sums: dict[int, Contribution] = {}
        self._with_bias: set[int] = set()  # values whose op adds what belongs to none of the units
        self.explained: set[int] = set()
        self.excused: set[int] = set()

    def explains(self, node: ir.Node, known: Numbers) -> bool:
        """Whether an op computes parts of the model's values; whole ones get their number."""
        outputs = [known[value] for value in node.outputs if value in known]
        if outputs and all(number in self._pieces or number in self._sums for number in outputs):
            return True  # passed on by a relay
        op = self._op(outputs[0]) if outputs else None
        if op is None:
            return False
        found = self._contributed(op) or self._results(op, len(node.outputs))
        if found is None:
            if self._is_excused(op):
                self.excused.update(outputs)
            return False
        for value, meaning in zip(node.outputs, found, strict=False):
            self._enter(value, meaning, known)
        return True

    def _enter(self, value: ir.Value, meaning: Piece | Contribution | int, known: Numbers) -> None:
        if isinstance(meaning, Contribution):
            if meaning.whole:
                known[value] = meaning.value
            else:
                self._sums[known[value]] = meaning
        elif isinstance(meaning, Piece):
            whole = self._source.whole(meaning)
            if whole is None:
                self._pieces[known[value]] = meaning
            else:
                known[value] = whole
        else:
            known[value] = meaning

    def _results(self, op: OpKey, count: int) -> Sequence[Piece | Contribution | int] | None:
        if any(number in self._sums for number in op.inputs):
            return None
        if op.op_type in VIEW_OPS and not op.domain:
            pieces = [self._piece(number) for number in op.inputs]
            found = viewed(op, pieces, lambda at: self._source.ints(op, at), count)
            if found is not None:
                return found
        if op.op_type == "Where" and (rows := self._look_ups.rows(op, self._pieces)) is not None:
            self.explained |= rows.used
            return [Contribution(rows.result, "Add", rows.extent, rows.units, counted=True)]
        for candidate in self._source.candidates(op, self._pieces):
            made = self._made(candidate, op) or self._side_by_side(candidate, op)
            if made is not None:
                return made
        return None

    def _contributed(self, op: OpKey) -> list[Contribution] | None:
        """Contributions put together, none of them twice."""
        given = [self._sums.get(number) for number in op.inputs if number is not None]
        first = given[0] if given else None
        if first is None or op.domain or op.op_type not in COMBINERS:
            return None
        if op.op_type != first.combined or op.attributes or len(given) != len(op.inputs):
            return None
        total = first
        for other in given[1:]:
            if other is None or (other.value, other.combined) != (first.value, first.combined):
                return None
            units = sorted((*total.units, *other.units))
            if any(b > c for (_, b), (c, _) in itertools.pairwise(units)):
                return None
            if total.counted and other.counted and first.value in self._with_bias:
                return None
            counted = total.counted or other.counted
            total = replace(total, units=merged(units), counted=counted)
        return [total]

    def _made(self, candidate: int, op: OpKey) -> Sequence[Piece | Contribution | int] | None:
        """What an op makes as a part of an op of the model, or None."""
        whole = self._source.op(candidate)
        if op.outputs != whole.outputs or op.bodies != whole.bodies or op.identity is not None:
            return None
        if len(op.inputs) > len(whole.inputs):
            return None
        seeds = self._seeds(whole, op)
        if seeds is None:
            return None
        results = self._source.results(candidate)
        if not seeds:
            same = op.attributes == whole.attributes and len(op.inputs) == len(whole.inputs)
            return results if same and self._alike(whole, op) else None
        for position, axis, intervals in seeds[:MAX_SEEDS]:
            part = self._part(candidate, op, position, axis, intervals)
            if part is not None:
                return self._meanings(part, results)
        return self._made_by_two(candidate, op, seeds[:MAX_SEEDS])

    def _made_by_two(
        self, candidate: int, op: OpKey, seeds: Sequence[tuple[int, int, Intervals]]
    ) -> Sequence[Piece] | None:
        """What an op makes that is cut along two loops, as rows and columns of a product."""
        facts = self._source.facts(candidate)
        cut: dict[int, tuple[int, Intervals]] = {}
        taken: list[tuple[int, Intervals]] = []
        for position, axis, intervals in seeds:
            if position in cut:
                continue
            law = law_of(facts, position, axis)
            if law is None or law.combined or len(law.outputs) != 1:
                return None
            units = {unit for _, unit in (*law.operands.values(), *law.outputs)}
            if units != {1} or not cut.keys().isdisjoint(law.operands):
                return None
            cut |= {at: (along, intervals) for at, (along, _) in law.operands.items()}
            taken.append((law.outputs[0][0], intervals))
        if len({axis for axis, _ in taken}) != len(taken) or len(taken) != 2:
            return None
        if op.attributes != facts.key.attributes or len(op.inputs) != len(facts.key.inputs):
            return None
        for at, (own, given) in enumerate(zip(op.inputs, facts.key.inputs, strict=True)):
            if at not in cut:
                if not self._is_same(own, given):
                    return None
            elif own is None or given is None or not self._has(own, given, *cut[at]):
                return None
        piece = self._source.pieces.get(self._source.results(candidate)[0])
        for axis, intervals in sorted(taken, reverse=True):
            # Columns first: rows of them are still columns of a matrix of one row.
            piece = None if piece is None else piece.taken(axis, intervals)
        return None if piece is None else [piece]

    def _side_by_side(self, candidate: int, op: OpKey) -> list[Piece] | None:
        """Parts of all operands of a `Concat` along its axis are parts of each stretch of it."""
        whole, facts = self._source.op(candidate), self._source.facts(candidate)
        if op.op_type != "Concat" or op.domain or op.attributes != whole.attributes:
            return None
        if len(op.inputs) != len(whole.inputs) or facts.results[0] is None:
            return None
        axis = facts.number("axis", 0) % max(1, len(facts.results[0]))
        taken: list[tuple[int, int]] = []
        start = 0
        for own, given, shape in zip(op.inputs, whole.inputs, facts.shapes, strict=True):
            if own is None or given is None or shape is None:
                return None
            is_constant = given in self._numbers.constant and own != given
            found = (self._located.locate if is_constant else self._relation)(own, given)
            if found is None or found[0] not in (axis, -1):
                return None
            intervals = found[1] if found[0] == axis else ((0, shape[axis]),)
            taken += [(start + a, start + b) for a, b in intervals]
            start += shape[axis]
        piece = self._source.pieces.get(self._source.results(candidate)[0])
        part = None if piece is None else piece.taken(axis, merged(taken))
        return None if part is None else [part]

    def _seeds(self, whole: OpKey, op: OpKey) -> list[tuple[int, int, Intervals]] | None:
        """Operands that are a part, values before constants, large ones before small ones."""
        values: list[tuple[int, int, Intervals]] = []
        constants: list[tuple[int, int, int, Intervals]] = []
        for position, (own, given) in enumerate(zip(op.inputs, whole.inputs, strict=False)):
            if own is None or given is None or own == given:
                continue
            if given in self._numbers.constant:
                found = self._located.locate(own, given)
                if found is not None:
                    size = int(np.prod(self._source.shape(given) or ()))
                    constants.append((-size, position, *found))
                continue
            relation = self._relation(own, given)
            if relation is None:
                return None
            if relation[0] >= 0:
                values.append((position, *relation))
        return values + [found[1:] for found in sorted(constants)]

    def _alike(self, whole: OpKey, op: OpKey) -> bool:
        return all(
            self._is_same(own, given) for own, given in zip(op.inputs, whole.inputs, strict=True)
        )

    def _part(
        self, candidate: int, op: OpKey, position: int, axis: int, intervals: Intervals
    ) -> _Part | None:
        facts = self._source.facts(candidate)
        law = law_of(facts, position, axis)
        shape = facts.shapes[position]
        if law is not None and law.combined and not self._divides_sums:
            return None
        if law is None or shape is None or law.operands.get(position, (-1, 0))[0] != axis:
            return None
        unit = law.operands[position][1]
        units = scaled(intervals, unit)
        if units is None or not self._attributes_fit(facts.key, op, law, length(units)):
            return None
        counted = law.counted_once < 0
        for at, given in enumerate(facts.key.inputs):
            own = op.inputs[at] if at < len(op.inputs) else None
            if at in law.operands:
                along, each = law.operands[at]
                wanted = tuple((a * each, b * each) for a, b in units)
                if given is None or own is None or not self._has(own, given, along, wanted):
                    return None
            elif at == law.counted_once:
                if own is not None and self._is_same(own, given):
                    counted = True
                elif own is not None and not is_nothing(self._numbers, own):
                    return None
            elif not self._is_same(own, given):
                return None
        return _Part(law, units, shape[axis] // unit, counted)

    def _meanings(
        self, part: _Part, results: Sequence[int]
    ) -> Sequence[Piece | Contribution] | None:
        if part.law.combined:
            if part.law.counted_once >= 0:
                self._with_bias.add(results[0])
            return [
                Contribution(results[0], part.law.combined, part.extent, part.units, part.counted)
            ]
        found: list[Piece] = []
        for number, (axis, each) in zip(results, part.law.outputs, strict=False):
            piece = self._source.pieces.get(number)
            if piece is None:
                return None
            taken = piece.taken(axis, tuple((a * each, b * each) for a, b in part.units))
            if taken is None:
                return None
            found.append(taken)
        return found if len(found) == len(results) else None

    def _attributes_fit(self, whole: OpKey, op: OpKey, law: Law, units: int) -> bool:
        own, given = dict(op.attributes), dict(whole.attributes)
        if not law.units_attribute:
            return own == given
        count = own.pop(law.units_attribute, ("i", 1))
        given.pop(law.units_attribute, None)
        return own == given and count == ("i", units)

    def _has(self, own: int, given: int, axis: int, intervals: Intervals) -> bool:
        if given in self._numbers.constant:
            return own in self._numbers.constant and self._located.holds(
                own, given, axis, intervals
            )
        return self._relation(own, given) == (axis, intervals)

    def _is_same(self, own: int | None, given: int | None) -> bool:
        if own == given:
            return True
        if own is None or given is None:
            return False
        return self._relation(own, given) == (-1, ())

    def _relation(self, own: int, given: int) -> tuple[int, Intervals] | None:
        if own == given:
            return (-1, ())
        piece, whole = self._piece(own), self._source.pieces.get(given)
        return None if piece is None or whole is None else part_of(piece, whole)

    def _piece(self, number: int | None) -> Piece | None:
        if number is None:
            return None
        return self._source.pieces.get(number) or self._pieces.get(number)

    def _op(self, number: int) -> OpKey | None:
        key = self._numbers.key(number)
        op = self._numbers.key(key.op) if isinstance(key, OutputKey) else None
        return op if isinstance(op, OpKey) else None

    def _is_excused(self, op: OpKey) -> bool:
        """Whether nothing can be said about an op, rather than that it is wrong."""
        if any(n in self.excused for n in op.inputs if n is not None):
            return True
        if op.domain or op.op_type not in VIEW_OPS:
            if not has_law(op.domain, op.op_type):
                return True
            return any(self._lacks_law(n, op) for n in self._source.candidates(op, self._pieces))
        return False

    def _lacks_law(self, candidate: int, op: OpKey) -> bool:
        seeds = self._seeds(self._source.op(candidate), op)
        facts = self._source.facts(candidate)
        return bool(seeds) and all(law_of(facts, at, axis) is None for at, axis, _ in seeds)
