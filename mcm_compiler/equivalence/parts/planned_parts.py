"""Ops that a plan divided, followed part by part.

For each value of a chip that is none of the model's it is found which part of one it holds: certain
indices along an axis, or what some units of a sum contribute. What an op makes of such parts
follows from the law of its type; constants are compared byte by byte with slices of the model's.
Where parts are put together again in order and without a gap, or all contributions are added, the
model's value is there.

A value that claims more is refused; an op whose type or axis has no law, and what only reads from
such ops, is left to runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import onnx_ir as ir

from mcm_compiler.equivalence.parts.cut_loops import cut_of, has_windows, reorders
from mcm_compiler.equivalence.parts.located_slices import LocatedSlices
from mcm_compiler.equivalence.parts.masked_look_ups import MaskedLookUps, is_nothing
from mcm_compiler.equivalence.parts.part_laws import WholeOp, has_law, law_of
from mcm_compiler.equivalence.parts.source_pieces import SourcePieces
from mcm_compiler.equivalence.parts.value_views import Cuts, Intervals, Piece, merged, part_of
from mcm_compiler.equivalence.parts.view_ops import VIEW_OPS, viewed
from mcm_compiler.equivalence.values.graph_walk import Numbers
from mcm_compiler.equivalence.values.source_values import SourceValues
from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers

COMBINERS = frozenset({"Add", "Max", "Min", "Mul"})


@dataclass(frozen=True)
class Contribution:
    """Contribution of some units of a sum to a value.

    Attributes:
        piece: the elements of the value of the model.
        combined: the op that puts contributions together.
        extent: all units.
        units: those that are in.
        counted: whether what is to be added once is in.
    """

    piece: Piece
    combined: str
    extent: int
    units: Intervals
    counted: bool

    @property
    def whole(self) -> bool:
        """True if nothing is missing."""
        return self.counted and self.units == ((0, self.extent),)


class PlannedParts:
    """Follows parts of values over the chips.

    Args:
        numbers: the table.
        source: the model.

    Attributes:
        explained: numbers of values that only serve to look up rows of a part of a table.
        excused: numbers of what ops without a law make, and of what depends on them.
        reordered: whether onnxruntime may add in another order in some part; see `reorders`.
    """

    def __init__(self, numbers: ValueNumbers, source: SourceValues) -> None:
        self._numbers = numbers
        self._source = SourcePieces(numbers, source)
        self._located = LocatedSlices(numbers)
        self._look_ups = MaskedLookUps(numbers, self._source, self._located, source.names)
        self._pieces: dict[int, Piece] = {}
        self._sums: dict[int, Contribution] = {}
        self._with_bias: set[int] = set()  # values whose op adds what belongs to none of the units
        self.explained: set[int] = set()
        self.excused: set[int] = set()
        self.reordered = False

    def explains(self, node: ir.Node, known: Numbers) -> bool:
        """Return whether an op computes parts of the model's values; whole ones are numbered."""
        outputs = [known[value] for value in node.outputs if value in known]
        if outputs and all(number in self._pieces or number in self._sums for number in outputs):
            return True  # passed on by a relay
        made = self._numbers.made_by(outputs[0]) if outputs else None
        if made is None:
            return False
        op = made[1]
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
            if not meaning.whole:
                self._sums[known[value]] = meaning
                return
            meaning = meaning.piece
        if isinstance(meaning, Piece):
            whole = self._source.whole(meaning)
            if whole is None:
                self._pieces[known[value]] = meaning
            else:
                known[value] = whole
        else:
            known[value] = meaning

    def _results(self, op: OpKey, count: int) -> Sequence[Piece | Contribution | int] | None:
        if (sums := [self._sums[n] for n in op.inputs if n in self._sums]) and (
            op.op_type not in VIEW_OPS
            or {replace(c, piece=sums[0].piece) for c in sums} != {sums[0]}
        ):
            return None
        if op.op_type in VIEW_OPS and not op.domain:
            pieces = [self._sums[n].piece if n in self._sums else self._piece(n) for n in op.inputs]
            if sums and len(sums) < (len(pieces) if op.op_type == "Concat" else 1):
                return None
            found = viewed(op, pieces, lambda at: self._source.ints(op, at), count)
            if found is not None:
                return [replace(sums[0], piece=piece) for piece in found] if sums else found
        if sums:
            return None
        if op.op_type == "Where" and (rows := self._look_ups.rows(op, self._pieces)) is not None:
            piece = self._source.pieces[rows.result].cut(rows.cuts)
            if piece is not None:
                self.explained |= rows.used
                return [Contribution(piece, "Add", rows.extent, rows.units, counted=True)]
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
            if other is None or other.combined != first.combined:
                return None
            if part_of(other.piece, first.piece) != {}:
                return None
            units = sorted((*total.units, *other.units))
            if any(b > c for (_, b), (c, _) in itertools.pairwise(units)):
                return None
            if total.counted and other.counted and first.piece.view.root in self._with_bias:
                return None
            counted = total.counted or other.counted
            total = replace(total, units=merged(units), counted=counted)
        return [total]

    def _made(self, candidate: int, op: OpKey) -> Sequence[Piece | Contribution | int] | None:
        """Pieces that an op makes as a part of an op of the model, or None."""
        whole = self._source.op(candidate)
        if op.outputs != whole.outputs or op.bodies != whole.bodies or op.identity is not None:
            return None
        facts, results = self._source.facts(candidate), self._source.results(candidate)
        order = self._order(facts)
        nothing = partial(is_nothing, self._numbers)
        ints = partial(self._source.ints, op)
        cut = cut_of(facts, op, order, self._relation, nothing, ints)
        if cut is None:
            return None
        if not any(cut.outputs) and cut.summed is None:
            return results
        self.reordered |= reorders(facts, cut)
        pieces: list[Piece] = []
        for number, cuts in zip(results, cut.outputs, strict=True):
            whole_of = self._source.pieces.get(number)
            piece = None if whole_of is None else whole_of.cut(cuts)
            if piece is None:
                return None
            pieces.append(piece)
        if cut.summed is None:
            return pieces
        if cut.summed.counted_once >= 0:
            self._with_bias.add(pieces[0].view.root)
        return [Contribution(pieces[0], cut.summed.combined, cut.extent, cut.units, cut.counted)]

    def _order(self, facts: WholeOp) -> list[int]:
        """Values before constants, whose places content alone may leave open; large ones first."""
        given = [(at, number) for at, number in enumerate(facts.key.inputs) if number is not None]
        values = [at for at, number in given if number not in self._numbers.constant]
        constants = [at for at, number in given if number in self._numbers.constant]
        return values + sorted(constants, key=lambda at: -math.prod(facts.shapes[at] or ()))

    def _side_by_side(self, candidate: int, op: OpKey) -> list[Piece] | None:
        """Parts of all operands of a `Concat` along its axis are parts of each stretch of it."""
        whole, facts = self._source.op(candidate), self._source.facts(candidate)
        if op.op_type != "Concat" or op.domain or op.attributes != whole.attributes:
            return None
        if len(op.inputs) != len(whole.inputs) or facts.results[0] is None:
            return None
        axis = facts.key.number("axis", 0) % max(1, len(facts.results[0]))
        taken: list[tuple[int, int]] = []
        start = 0
        for own, given, shape in zip(op.inputs, whole.inputs, facts.shapes, strict=True):
            if own is None or given is None or shape is None:
                return None
            found = self._relation(own, given, {})
            if found is None or not found.keys() <= {axis}:
                return None
            intervals = found.get(axis, ((0, shape[axis]),))
            taken += [(start + a, start + b) for a, b in intervals]
            start += shape[axis]
        piece = self._source.pieces.get(self._source.results(candidate)[0])
        part = None if piece is None else piece.taken(axis, merged(taken))
        return None if part is None else [part]

    def _relation(self, own: int, given: int, expected: Cuts) -> Cuts | None:
        if own == given:
            return {}
        if given in self._numbers.constant:
            return self._located.locate(own, given, expected)
        piece, whole = self._piece(own), self._source.pieces.get(given)
        return None if piece is None or whole is None else part_of(piece, whole)

    def _piece(self, number: int | None) -> Piece | None:
        if number is None:
            return None
        return self._source.pieces.get(number) or self._pieces.get(number)

    def _is_excused(self, op: OpKey) -> bool:
        """Return whether nothing can be said about an op, rather than that it is wrong."""
        if any(n in self.excused for n in op.inputs if n is not None):
            return True
        if op.domain or op.op_type not in VIEW_OPS:
            if not has_law(op.domain, op.op_type):
                return True
            return any(self._lacks_law(n, op) for n in self._source.candidates(op, self._pieces))
        return False

    def _lacks_law(self, candidate: int, op: OpKey) -> bool:
        facts = self._source.facts(candidate)
        related = [
            (at, axis)
            for at, (own, given) in enumerate(zip(op.inputs, facts.key.inputs, strict=False))
            if own is not None and given is not None
            for axis in self._relation(own, given, {}) or ()
        ]
        return bool(related) and not any(
            has_windows(facts, at, axis) or law_of(facts, at, axis) for at, axis in related
        )
