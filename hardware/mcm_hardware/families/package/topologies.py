"""How the chips of a package are connected, and which links a tensor takes.

A grid has one or more dimensions; a line and a ring have one. Chips are numbered row by row, the
last dimension fastest. A tensor goes along one dimension after the other (dimension-order routing),
the shorter way round where a dimension is closed to a circle. On a list of links it takes a
shortest route.

Tensors that go round a circle could block each other permanently. Links therefore have virtual
channels, which share the rate of the link. A tensor that passes the end of a circle (the dateline)
changes to the next one: Dally and Seitz 1987, *Deadlock-Free Message Routing in Multiprocessor
Interconnection Networks*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.types import Ints


class Ways(NamedTuple):
    """The routes from one chip to each of the N chips; row b is `links[ptr[b]:ptr[b + 1]]`.

    Attributes:
        ptr: `[N + 1]`.
        links: the links of all rows, in the order of travel. An empty row means that there is no
            way, or none is needed.
        lanes: of each of `links`, how many datelines the tensor has passed before it.
    """

    ptr: Ints
    links: Ints
    lanes: Ints


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

    def ways(self) -> Iterator[Ways]:
        """The routes from each chip, in the order of chips."""
        ...


@dataclass(frozen=True)
class Grid:
    """Chips in a grid of one or more dimensions.

    Attributes:
        size: chips along each dimension, the last one fastest.
        closed: whether each dimension is a circle (a ring, a torus).
        two_way: whether links lead both ways. One way is only for one dimension.
        order: the dimensions in the order in which a tensor takes them.
    """

    size: tuple[int, ...]
    closed: bool
    two_way: bool
    order: tuple[int, ...]

    @property
    def chips(self) -> int:
        """N."""
        return math.prod(self.size)

    @property
    def ends(self) -> Ints:
        """`[links, 2]`, by dimension, direction and chip."""
        return self._links()[0]

    def _links(self) -> tuple[Ints, Ints]:
        """`ends`, and `[dimensions, 2, N]` the link that leaves a chip forwards and backwards."""
        place = np.stack(np.unravel_index(np.arange(self.chips), self.size))
        number = np.full((len(self.size), 2, self.chips), -1, np.int32)
        ends: list[tuple[int, int]] = []
        for k, length in enumerate(self.size):
            for backwards in range(2 if self.two_way else 1):
                there = place.copy()
                there[k] += -1 if backwards else 1
                if self._circle(length):
                    there[k] %= length
                for chip in np.flatnonzero((there[k] >= 0) & (there[k] < length)).tolist():
                    number[k, backwards, chip] = len(ends)
                    ends.append((chip, int(np.ravel_multi_index(tuple(there[:, chip]), self.size))))
        return np.array(ends, np.int32).reshape(len(ends), 2), number

    def ways(self) -> Iterator[Ways]:
        """The routes from each chip, in the order of chips."""
        _, number = self._links()
        target = np.stack(np.unravel_index(np.arange(self.chips), self.size)).astype(np.int32)
        for source in range(self.chips):
            yield self._ways_from(target[:, source], target, number)

    def _ways_from(self, source: Ints, target: Ints, number: Ints) -> Ways:
        steps = [self._steps(int(source[k]), target[k], self.size[k]) for k in self.order]
        away = np.abs(np.stack(steps))
        blocked = np.zeros(self.chips, np.bool_)
        if not self.two_way:
            blocked = np.stack(steps).min(axis=0) < 0
            away[:, blocked] = 0
        ptr = np.concatenate([[0], np.cumsum(away.sum(axis=0))]).astype(np.int32)
        row = np.repeat(np.arange(self.chips), away.sum(axis=0))
        hop = np.arange(ptr[-1]) - ptr[row]
        links, lanes = np.empty(len(row), np.int32), np.zeros(len(row), np.int32)
        at = np.repeat(source[:, None], len(row), axis=1)
        passed = np.zeros(self.chips, np.int64)
        for k, stepped, count in zip(self.order, steps, away, strict=True):
            here = np.flatnonzero((hop >= passed[row]) & (hop < (passed + count)[row]))
            forwards = stepped[row[here]] > 0
            raw = source[k] + np.where(forwards, 1, -1) * (hop[here] - passed[row[here]])
            behind = np.flatnonzero(hop >= (passed + count)[row])
            at[k, here], at[k, behind] = raw % self.size[k], target[k, row[behind]]
            chip = np.ravel_multi_index(tuple(at[:, here]), self.size)
            links[here] = number[k, np.where(forwards, 0, 1), chip]
            lanes[here] = (raw < 0) | (raw >= self.size[k])
            passed += count
        return Ways(ptr, links, lanes)

    def _circle(self, length: int) -> bool:
        """Return whether a dimension is closed; two chips have one link each way."""
        return self.closed and length > (2 if self.two_way else 1)

    def _steps(self, source: int, target: Ints, length: int) -> Ints:
        """Signed hops along one dimension; the shorter way round a circle, forwards where equal."""
        hops = target - source
        if not self._circle(length):
            return hops
        forwards = hops % length
        return np.where(self.two_way & (2 * forwards > length), forwards - length, forwards)


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

    def ways(self) -> Iterator[Ways]:
        """Shortest routes; of equal ones those whose links are first in the list.

        A tensor passes a dateline where it takes a link that comes before the last in the list.
        """
        leaving: list[list[int]] = [[] for _ in range(self.chips)]
        for link, (a, _) in enumerate(self.pairs):
            leaving[a].append(link)
        for source in range(self.chips):
            yield self._ways_from(source, leaving)

    def _ways_from(self, source: int, leaving: Sequence[Sequence[int]]) -> Ways:
        came = {source: -1}
        reached = [source]
        for chip in reached:
            for link in leaving[chip]:
                there = self.pairs[link][1]
                if there not in came:
                    came[there] = link
                    reached.append(there)
        ptr, links, lanes = [0], list[int](), list[int]()
        for chip in range(self.chips):
            way: list[int] = []
            at = chip
            while came.get(at, -1) >= 0:
                way.append(came[at])
                at = self.pairs[came[at]][0]
            way.reverse()
            links += way
            lane = 0
            for i, link in enumerate(way):
                lane += i > 0 and link < way[i - 1]
                lanes.append(lane)
            ptr.append(len(links))
        return Ways(*(np.array(part, np.int32) for part in (ptr, links, lanes)))
