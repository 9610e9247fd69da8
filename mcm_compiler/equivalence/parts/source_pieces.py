"""The model's side of parts: what each of its values holds, and its ops by what they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from mcm_compiler.equivalence.parts.located_slices import constant_shape
from mcm_compiler.equivalence.parts.part_laws import WholeOp, operands_in_a_row
from mcm_compiler.equivalence.parts.value_views import Piece, Shape, part_of, whole_piece
from mcm_compiler.equivalence.parts.view_ops import VIEW_OPS, viewed
from mcm_compiler.equivalence.values.source_values import SourceValues
from mcm_compiler.equivalence.values.value_numbers import OpKey, OutputKey, ValueNumbers

MAX_INTS = 4096


class SourcePieces:
    """Values and ops of a model, to be found by their roots.

    Args:
        numbers: the table.
        source: the model.

    Attributes:
        pieces: of each value of known shape that is no constant.
    """

    def __init__(self, numbers: ValueNumbers, source: SourceValues) -> None:
        self._numbers = numbers
        self._source = source
        self.pieces: dict[int, Piece] = {}
        self._by_root: defaultdict[tuple[int, Shape], list[int]] = defaultdict(list)
        self._by_reads: defaultdict[Hashable, list[int]] = defaultdict(list)
        self._in_a_row: dict[int, int] = {}  # ops with several operands in one, by another form
        ops: set[int] = set()
        for number in sorted(source.names):
            if number in numbers.constant:
                continue
            self._add(number)
            made = numbers.made_by(number)
            if made is not None and made[0].op not in ops:
                ops.add(made[0].op)
                self._add_op(made[0].op)

    def _add(self, number: int) -> None:
        shape = self._numbers.shapes.get(number)
        if shape is None:
            return
        found = self._as_view(number)
        piece = found if found is not None and found.shape == shape else None
        piece = piece or whole_piece(number, shape)
        if piece is not None:
            self.pieces[number] = piece
            self._by_root[piece.view.root, shape].append(number)

    def _add_op(self, number: int) -> None:
        for own in (number, *self._with_operands_alone(number)):
            op = self.op(own)
            roots = self._roots(op)
            for count in range(2, len(roots) + 1) if len(roots) > 2 else (len(roots),):
                self._by_reads[_reads(op, roots[:count])].append(own)

    def _with_operands_alone(self, number: int) -> list[int]:
        """An op that has several operands in one also as one that reads each of them."""
        op = self.op(number)
        row = op.reads(0)
        piece = None if row is None else self.pieces.get(row)
        places = () if piece is None else operands_in_a_row(op, piece.shape)
        if piece is None or not places:
            return []
        alone: list[int] = []
        for place in places:
            taken = piece.taken(len(piece.shape) - 1, (place,))
            if taken is None:
                return []
            alone.append(self._numbers.of(("columns", row, *place)))
            self.pieces[alone[-1]] = taken
            self._numbers.shapes[alone[-1]] = taken.shape
        other = self._numbers.of(op._replace(inputs=(*alone, *op.inputs[len(alone) :])))
        self._in_a_row[other] = number
        return [other]

    def _as_view(self, number: int) -> Piece | None:
        made = self._numbers.made_by(number)
        if made is None or made[1].op_type not in VIEW_OPS:
            return None
        key, op = made
        operands = [None if n is None else self.pieces.get(n) for n in op.inputs]
        found = viewed(op, operands, lambda at: self.ints(op, at), len(op.outputs))
        return found[key.position] if found is not None and key.position < len(found) else None

    def ints(self, op: OpKey, position: int) -> tuple[int, ...] | None:
        """Elements of a constant operand of whole numbers."""
        content = self._numbers.known_content(op.reads(position))
        if content is None or self._numbers.contents.tensor(content).size > MAX_INTS:
            return None
        array = self._numbers.contents.array(content)
        if array.dtype.kind not in "iuf" or not np.array_equal(array, np.round(array)):
            return None
        return tuple(int(n) for n in array.reshape(-1))

    def shape(self, number: int | None) -> Shape | None:
        """The shape of a value of the model, or of a constant."""
        if number is None:
            return None
        if number in self._numbers.constant:
            return constant_shape(self._numbers, number)
        return self._numbers.shapes.get(number)

    def root(self, number: int, own: dict[int, Piece]) -> int:
        """Value that a value is made of; itself where that is not known."""
        piece = self.pieces.get(number) or own.get(number)
        return number if piece is None else piece.view.root

    def _roots(self, op: OpKey, own: dict[int, Piece] | None = None) -> tuple[int | None, ...]:
        constant = self._numbers.constant
        return tuple(
            n if n is None else -1 if n in constant else self.root(n, own or {}) for n in op.inputs
        )

    def candidates(self, op: OpKey, own: dict[int, Piece]) -> list[int]:
        """Ops of the model, of the same type, that read from the same roots."""
        return self._by_reads.get(_reads(op, self._roots(op, own)), [])

    def whole(self, piece: Piece) -> int | None:
        """The value of the model that a piece is all of, or None."""
        for number in self._by_root.get((piece.view.root, piece.shape), ()):
            if part_of(piece, self.pieces[number]) == {}:
                return number
        return None

    def op(self, number: int) -> OpKey:
        """The key of an op of the model."""
        key = self._numbers.key(number)
        assert isinstance(key, OpKey)
        return key

    def results(self, number: int) -> list[int]:
        """Numbers of the outputs of an op of the model."""
        count, own = len(self.op(number).outputs), self._in_a_row.get(number, number)
        return [self._numbers.of(OutputKey(own, at)) for at in range(count)]

    def facts(self, number: int) -> WholeOp:
        """An op of the model as laws see it."""
        op = self.op(number)
        return WholeOp(
            op,
            tuple(self.shape(n) for n in op.inputs),
            tuple(self.shape(n) for n in self.results(number)),
            lambda at: self.ints(op, at),
        )


def _reads(op: OpKey, roots: tuple[int | None, ...]) -> Hashable:
    return (op.domain, op.op_type, op.version, roots)
