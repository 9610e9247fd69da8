"""Look-ups in a part of a table that give zeros for rows of other parts.

Look-ups in a part of a table: which rows are found, found by trying every index that there is.

Of an index of a table of `n` rows there are `2 n` values, `-n` to `n - 1`. What ops make of an
index, element by element, is computed for all of them at once. So nothing has to be known about how
the ops that hide rows of other parts are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.equivalence.parts import value_views
from mcm_compiler.equivalence.parts.located_slices import LocatedSlices
from mcm_compiler.equivalence.parts.source_pieces import SourcePieces
from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers

MAX_STEPS = 64
"""Ops between an index of the model and one of a part."""

MAX_LEAVES = 8


@dataclass(frozen=True)
class FoundRows:
    """Rows that a look-up in a part of a table gives.

    Attributes:
        result: number of the model's look-up in the whole table.
        extent: rows of the whole table.
        units: rows that are found.
        used: numbers of what only serves the look-up.
        cuts: of the result, where only some indices are looked up.
    """

    result: int
    extent: int
    units: value_views.Intervals
    used: frozenset[int]
    cuts: value_views.Cuts


class MaskedLookUps:
    """Recognises look-ups.

    Args:
        numbers: the table of numbers.
        source: values and ops of the model.
        located: finds slices of constants.
        names: of the values of the model.
    """

    def __init__(
        self,
        numbers: ValueNumbers,
        source: SourcePieces,
        located: LocatedSlices,
        names: Mapping[int, str],
    ) -> None:
        self._numbers = numbers
        self._source = source
        self._located = located
        self._names = names

    def rows(self, op: OpKey, pieces: dict[int, value_views.Piece]) -> FoundRows | None:
        """Rows that `Where(mask, look-up, zero)` gives of a look-up of the model, or None.

        Args:
            op: a `Where`.
            pieces: what values of chips hold.
        """
        if len(op.inputs) != 3 or op.domain:
            return None
        mask, found, nothing = op.inputs
        gather = self._numbers.maker(found) if found is not None else None
        if gather is None or found is None or mask is None or nothing is None:
            return None
        if gather.op_type != "Gather" or gather.domain or len(gather.inputs) != 2:
            return None
        if self._source.shape(nothing) != () or not is_nothing(self._numbers, nothing):
            return None
        for leaf in self._leaves(gather.inputs[1], pieces):
            key = gather._replace(inputs=(gather.inputs[0], leaf))
            own = self._source.pieces.get(leaf) or pieces.get(leaf)
            for candidate in self._source.candidates(key, pieces):
                rows = None if own is None else self._of(candidate, gather, leaf, own, mask)
                if rows is not None:
                    return replace(rows, used=rows.used | {found})
        return None

    def _of(
        self, candidate: int, gather: OpKey, leaf: int, own: value_views.Piece, mask: int
    ) -> FoundRows | None:
        given = self._source.facts(candidate)
        whole = self._source.pieces.get(given.key.inputs[1] or 0)
        cuts = None if whole is None else value_views.part_of(own, whole)
        if cuts is None or given.key.attributes != gather.attributes:
            return None
        table, rows = given.key.inputs[0], gather.inputs[0]
        located = None if table is None or rows is None else self._located.locate(rows, table)
        shape = given.shapes[0]
        if located is None or not shape:
            return None
        axis = given.key.number("axis", 0) % len(shape)
        if located.keys() != {axis}:
            return None
        plain, used = mask, frozenset[int]()
        behind = len(shape) - axis - 1
        if behind:
            spread = self._spread(mask, (*own.shape, *[1] * behind))
            if spread is None:
                return None
            plain, used = spread, frozenset({mask})
        expression = IndexExpression(self._numbers, leaf, shape[axis])
        units = _rows_found(expression, plain, gather.inputs[1], located[axis])
        if units is None:
            return None
        result = self._source.results(candidate)[0]
        of_result = {axis + along: at for along, at in cuts.items()}
        return FoundRows(result, shape[axis], units, used | expression.used, of_result)

    def _spread(self, mask: int, shape: value_views.Shape) -> int | None:
        """Shape that a mask is reshaped from, with an extent of 1 for each axis within a row."""
        made = self._numbers.maker(mask)
        if made is None or made.op_type != "Reshape" or made.domain or 0 in shape:
            return None
        return made.inputs[0] if self._source.ints(made, 1) == shape else None

    def _leaves(self, number: int | None, pieces: dict[int, value_views.Piece]) -> list[int]:
        """Values of the model, or parts of them, that an expression is made of, nearest first."""
        found: dict[int, None] = {}
        waiting, seen = [number], set[int]()
        while waiting and len(seen) < MAX_STEPS:
            at = waiting.pop(0)
            if at is None or at in seen or at in self._numbers.constant:
                continue
            seen.add(at)
            if at in self._names or at in pieces:
                found[at] = None
            made = self._numbers.maker(at)
            if made is not None:
                waiting += made.inputs
        return list(found)[:MAX_LEAVES]


def is_nothing(numbers: ValueNumbers, number: int) -> bool:
    """Return whether a number is that of a constant of one element, a zero: it changes no sum."""
    content = numbers.known_content(number)
    if content is None or numbers.contents.tensor(content).size != 1:
        return False
    return not numbers.contents.array(content).any()


def _rows_found(
    expression: IndexExpression, mask: int, index: int | None, rows: value_views.Intervals
) -> value_views.Intervals | None:
    """Rows of the table that are found, if they are the right ones and no others are read.

    Args:
        expression: computes for every index.
        mask: number of the value that says whether a row is found here.
        index: number of the row of the part that is read.
        rows: of the whole table that the part has.
    """
    here, at = expression.of(mask), expression.of(index)
    if here is None or at is None or here.dtype != bool or at.dtype == bool:
        return None
    total, count = expression.rows, value_views.length(rows)
    held = np.concatenate([np.arange(a, b) for a, b in rows])
    wanted = np.arange(-total, total) % total
    here, at = np.broadcast_to(here, wanted.shape), np.broadcast_to(at, wanted.shape)
    if at.min() < -count or at.max() >= count:
        return None
    if not np.array_equal(held[at[here]], wanted[here]):
        return None
    shown = np.zeros(total, bool)
    shown[wanted[here]] = True
    # Both ways to name a row find it, or neither.
    if not np.array_equal(shown[wanted], here):
        return None
    return value_views.merged([(int(k), int(k) + 1) for k in np.flatnonzero(shown)])


MAX_ROWS = 1 << 21
"""Rows of the largest table that is looked at."""

MAX_NUMBER = 1 << 31
"""Larger numbers would wrap around in an index type of 32 bits."""

MAX_OPS = 64
"""Of an expression."""

_BINARY = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Sub": np.subtract,
}


@dataclass(eq=False)
class IndexExpression:
    """Ops on each element of an index.

    Args:
        numbers: the table.
        leaf: number of the index.
        rows: of the whole table.

    Attributes:
        used: numbers of the results of all ops that were computed.
    """

    numbers: ValueNumbers
    leaf: int
    rows: int

    def __post_init__(self) -> None:
        self.used: set[int] = set()
        self._values: dict[int, np.ndarray | None] = {}

    def of(self, number: int | None) -> np.ndarray | None:
        """The values for all indices from `-rows` to `rows - 1`; None where that is not known."""
        if number is None or not 0 < self.rows <= MAX_ROWS:
            return None
        if number not in self._values:
            self._values[number] = None
            self._values[number] = self._compute(number)
        return self._values[number]

    def _compute(self, number: int) -> np.ndarray | None:
        if number == self.leaf:
            return np.arange(-self.rows, self.rows, dtype=np.int64)
        content = self.numbers.known_content(number)
        if content is not None:
            held = self.numbers.contents.array(content)
            plain = held.ndim == 0 and held.dtype.kind in "ib"
            if not plain:
                return None
            return self._bounded(held.astype(bool if held.dtype.kind == "b" else np.int64))
        op = self.numbers.maker(number)
        if op is None or len(self.used) >= MAX_OPS:
            return None
        if op.domain or op.attributes or op.bodies:
            return None
        operands = [self.of(n) for n in op.inputs]
        given = [value for value in operands if value is not None]
        if len(given) < len(operands):
            return None
        found = self._bounded(_applied(op, given))
        if found is not None:
            self.used.add(number)
        return found

    @staticmethod
    def _bounded(value: np.ndarray | None) -> np.ndarray | None:
        if value is None or value.dtype == bool:
            return value
        fits = int(value.min()) >= -MAX_NUMBER and int(value.max()) < MAX_NUMBER
        return value if fits else None


def _applied(op: OpKey, given: list[np.ndarray]) -> np.ndarray | None:
    """Computed with 64 bits."""
    if op.op_type in _BINARY and len(given) == 2:
        return _BINARY[op.op_type](*given)
    if op.op_type == "Not" and len(given) == 1:
        return np.logical_not(given[0])
    if op.op_type == "Where" and len(given) == 3:
        return np.where(*given)
    if op.op_type == "Div" and len(given) == 2 and given[1].min() > 0:
        return np.sign(given[0]) * (np.abs(given[0]) // given[1])
    return None
