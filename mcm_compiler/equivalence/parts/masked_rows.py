"""Look-ups in a part of a table: which rows are found, told by trying every index that there is.

Of an index of a table of `n` rows there are `2 n` values, `-n` to `n - 1`. What ops make of an
index, element by element, is computed for all of them at once. So nothing has to be known about how
the ops that hide rows of other parts are written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.equivalence.values.value_numbers import OpKey, ValueNumbers

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
