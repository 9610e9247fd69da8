"""How the chips of a package are connected.

A grid has one or more dimensions; a line and a ring have one. Chips are numbered row by row, the
last dimension fastest.

Tensors that go round a circle could block each other permanently. Links therefore have virtual
channels, which share the rate of the link. A tensor that passes the end of a circle (the dateline)
changes to the next one: Dally and Seitz 1987, *Deadlock-Free Message Routing in Multiprocessor
Interconnection Networks*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.types import Bools, Ints


class Topology(Protocol):
    """Chips and the links between them."""

    @property
    def chips(self) -> int:
        """N."""
        ...

    @property
    def ends(self) -> Ints:
        """`[links, 2]`, the chips that each link leaves and reaches."""
        ...

    def datelines(self, ptr: Ints, links: Ints) -> Ints:
        """How many datelines a tensor has passed before each link of its route.

        Args:
            ptr: `[routes + 1]`.
            links: of all routes, in the order of travel; those of one are `ptr[r]:ptr[r + 1]`.
        """
        ...


class _Links(NamedTuple):
    """Links of a grid, by dimension, direction and chip.

    Attributes:
        ends: as `Topology.ends`.
        number: `[dimensions, 2, N]`, the link that leaves a chip forwards and backwards; -1 for
            none.
        dimension: `[links]`, that each leads along.
        closing: `[links]`, whether each leads from one end of a circle to the other.
    """

    ends: Ints
    number: Ints
    dimension: Ints
    closing: Bools


@dataclass(frozen=True)
class Grid:
    """Chips in a grid of one or more dimensions.

    Attributes:
        size: chips along each dimension, the last one fastest.
        closed: whether each dimension is a circle (a ring, a torus).
        two_way: whether links lead both ways. One way is only for one dimension.
    """

    size: tuple[int, ...]
    closed: bool = False
    two_way: bool = True

    @property
    def chips(self) -> int:
        """N."""
        return math.prod(self.size)

    def place(self, chip: int) -> tuple[int, ...]:
        """The place of a chip along each dimension, such as row and column."""
        found: list[int] = []
        for length in reversed(self.size):
            chip, here = divmod(chip, length)
            found.append(here)
        return tuple(reversed(found))

    def chip(self, place: Sequence[int]) -> int:
        """The chip at a place."""
        found = 0
        for here, length in zip(place, self.size, strict=True):
            found = found * length + here
        return found

    @property
    def ends(self) -> Ints:
        """`[links, 2]`, by dimension, direction and chip."""
        return self.links.ends

    @cached_property
    def links(self) -> _Links:
        """The links, with where each leads."""
        place = np.stack(np.unravel_index(np.arange(self.chips), self.size))
        number = np.full((len(self.size), 2, self.chips), -1, np.int32)
        found: list[tuple[int, int, int, bool]] = []
        for k, length in enumerate(self.size):
            for backwards in range(2 if self.two_way else 1):
                there = place.copy()
                there[k] += -1 if backwards else 1
                inside = (there[k] >= 0) & (there[k] < length)
                if self.is_circle(length):
                    there[k] %= length
                for chip in np.flatnonzero((there[k] >= 0) & (there[k] < length)).tolist():
                    number[k, backwards, chip] = len(found)
                    found.append((chip, self.chip(there[:, chip].tolist()), k, not inside[chip]))
        rows = np.array(found, np.int32).reshape(len(found), 4)
        return _Links(rows[:, :2], number, rows[:, 2], rows[:, 3].astype(np.bool_))

    def is_circle(self, length: int) -> bool:
        """Return whether a dimension is a circle; two chips have one link each way."""
        return self.closed and length > (2 if self.two_way else 1)

    def datelines(self, ptr: Ints, links: Ints) -> Ints:
        """Ends of circles that a tensor has passed since it turned into a dimension."""
        _, _, dimension, closing = self.links
        passed = np.cumsum(closing[links]) - closing[links]
        return _since(passed, _turns(ptr, dimension[links]))


@dataclass(frozen=True)
class LinkList:
    """Chips with the links that a list names.

    Attributes:
        pairs: `(a, b)`, a link from chip a to chip b.
    """

    pairs: tuple[tuple[int, int], ...]

    @property
    def chips(self) -> int:
        """N: chips are numbered from 0 to the highest that a link names."""
        return 1 + max(max(pair) for pair in self.pairs)

    @property
    def ends(self) -> Ints:
        """`[links, 2]`."""
        return np.array(self.pairs, np.int32)

    def datelines(self, ptr: Ints, links: Ints) -> Ints:
        """Links of a tensor's route that come before the last one in the list."""
        before = np.concatenate([links[:1], links[:-1]])
        return _since(np.cumsum(links < before), _turns(ptr, np.zeros_like(links)))


def _turns(ptr: Ints, kind: Ints) -> Bools:
    """Where a route begins, or its links are of another kind than before."""
    turns = np.ones(len(kind), np.bool_)
    turns[1:] = kind[1:] != kind[:-1]
    turns[ptr[:-1][ptr[:-1] < len(kind)]] = True
    return turns


def _since(counts: np.ndarray, turns: Bools) -> Ints:
    """Counts less those at the last turn."""
    last = np.maximum.accumulate(np.where(turns, np.arange(len(turns)), 0))
    return (counts - counts[last]).astype(np.int32)
