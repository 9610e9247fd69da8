"""The links of a mesh, and the ways of tensors over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Turns = Literal["xy", "yx", "alternating"]
"""Which way a tensor goes first: along its row, along its column, or by the row that it starts in.
With the last one tensors can block each other for good, so that the compiler refuses it."""


@dataclass(frozen=True)
class Grid:
    """A mesh of chips, numbered row by row; neighbours have a link each way.

    Attributes:
        rows: rows of chips.
        cols: columns of chips.
        turns: see `Turns`.
    """

    rows: int
    cols: int
    turns: Turns = "xy"

    @property
    def links(self) -> list[tuple[int, int]]:
        """The chips that each link leads from and to."""
        found: list[tuple[int, int]] = []
        for row in range(self.rows):
            for col in range(self.cols):
                chip = row * self.cols + col
                if col + 1 < self.cols:
                    found += [(chip, chip + 1), (chip + 1, chip)]
                if row + 1 < self.rows:
                    found += [(chip, chip + self.cols), (chip + self.cols, chip)]
        return found

    def way(self, source: int, target: int) -> list[int]:
        """The chips that a tensor comes through, both ends among them."""
        (row, col), (last_row, last_col) = divmod(source, self.cols), divmod(target, self.cols)
        along_row = [(row, c) for c in _steps(col, last_col)]
        along_col = [(r, col) for r in _steps(row, last_row)]
        if self.turns == "xy" or (self.turns == "alternating" and row % 2 == 0):
            turned = [(r, last_col) for r in _steps(row, last_row)]
            places = along_row + turned[1:]
        else:
            turned = [(last_row, c) for c in _steps(col, last_col)]
            places = along_col + turned[1:]
        return [r * self.cols + c for r, c in places]


def _steps(first: int, last: int) -> list[int]:
    step = 1 if last >= first else -1
    return list(range(first, last + step, step))
