"""Routings: the links that tensors take, which `topology.routing` names.

`xy` and `yx` go along one dimension after the other (dimension-order routing), the shorter way
round where a dimension is a circle. `shortest` is for any links. A plug-in adds its own as
components of the kind `routing`; `hop_by_hop` makes one from a function that lists the chips of a
route.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.machines.machine import MOST_LANES
from mcm_hardware.families.package.topologies import Grid, Topology


class Ways(NamedTuple):
    """The routes from one chip to each of the N chips; row b is `links[ptr[b]:ptr[b + 1]]`.

    Attributes:
        ptr: `[N + 1]`.
        links: the links of all rows, in the order of travel. An empty row means that there is no
            way, or none is needed.
        lanes: the virtual channel of each of `links`. One that links do not have is the last one.
    """

    ptr: Ints
    links: Ints
    lanes: Ints


class Routing(Protocol):
    """A component of the kind `routing`: a function that knows all routes of a topology."""

    def __call__(self, topology: Any, /) -> Iterator[Ways]:
        """The routes from each chip, in the order of chips.

        Raises:
            ValueError: for a topology that it has no routes for, with the reason.
        """
        ...


class Hop(NamedTuple):
    """One hop of a route.

    Attributes:
        chip: that it leads to.
        lane: the virtual channel that it takes, from 0; None for one more than before where the
            tensor has passed the end of a circle.
    """

    chip: int
    lane: int | None = None


def hop_by_hop(route: Callable[[Any, int, int], Iterable[Hop]]) -> Routing:
    """The routing whose routes a function gives hop by hop.

    Args:
        route: from the topology and two chips, source and destination, to the hops between them;
            without hops there is no way. The last hop leads to the destination.
    """

    @functools.wraps(route)
    def routing(topology: Topology) -> Iterator[Ways]:
        link_of = {(a, b): link for link, (a, b) in enumerate(topology.ends.tolist())}
        for source in range(topology.chips):
            rows = [
                [] if source == chip else _checked_route(route, topology, link_of, source, chip)
                for chip in range(topology.chips)
            ]
            yield _ways(topology, rows)

    return routing


def _checked_route(
    route: Callable[[Any, int, int], Iterable[Hop]],
    topology: Topology,
    link_of: Mapping[tuple[int, int], int],
    source: int,
    chip: int,
) -> list[tuple[int, int | None]]:
    """The links of one route, each with the virtual channel that the routing chose.

    Raises:
        ValueError: for a route that takes no link, visits a chip twice, ends elsewhere, or has no
            such virtual channel.
    """
    found: list[tuple[int, int | None]] = []
    at, visited = source, {source}
    where = f"the route from chip {source} to chip {chip}"
    for hop in route(topology, source, chip):
        if not isinstance(hop, Hop):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{where} has a {type(hop).__name__}, not a Hop")
        if hop.chip in visited:
            raise ValueError(f"{where} visits chip {hop.chip} twice")
        if hop.lane is not None and not 0 <= hop.lane < MOST_LANES:
            raise ValueError(f"{where} takes virtual channel {hop.lane} of 0 to {MOST_LANES - 1}")
        # A routing that leads off the package for ever ends here.
        if (link := link_of.get((at, hop.chip))) is None:
            raise ValueError(
                f"{where} needs a link from chip {at} to chip {hop.chip}, and there is none"
            )
        at = hop.chip
        visited.add(at)
        found.append((link, hop.lane))
    if found and at != chip:
        raise ValueError(f"{where} ends at chip {at}")
    return found


def _ways(topology: Topology, rows: Sequence[Sequence[tuple[int, int | None]]]) -> Ways:
    """The routes from a chip, from their links."""
    steps = [step for row in rows for step in row]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    taken = np.array([link for link, _ in steps], np.int32)
    lanes = topology.datelines(ptr, taken)
    for i, (_, lane) in enumerate(steps):
        if lane is not None:
            lanes[i] = lane
    return Ways(ptr, taken, lanes)


def xy(topology: Topology) -> Iterator[Ways]:
    """Along the row first, then along the column.

    Raises:
        ValueError: for a topology without rows.
    """
    return _dimension_order(topology, -1)


def yx(topology: Topology) -> Iterator[Ways]:
    """Along the column first, then along the row.

    Raises:
        ValueError: for a topology without rows.
    """
    return _dimension_order(topology, 1)


def _dimension_order(topology: Topology, step: int) -> Iterator[Ways]:
    if not isinstance(topology, Grid):
        raise ValueError("a list of links has no rows and columns")
    order = tuple(range(len(topology.size)))[::step]
    target = np.stack(np.unravel_index(np.arange(topology.chips), topology.size)).astype(np.int32)
    return (_ways_along(topology, order, source, target) for source in target.T)


def _ways_along(grid: Grid, order: Sequence[int], source: Ints, target: Ints) -> Ways:
    steps = [_steps(grid, int(source[k]), target[k], grid.size[k]) for k in order]
    away = np.abs(np.stack(steps))
    if not grid.two_way:
        away[:, np.stack(steps).min(axis=0) < 0] = 0
    ptr = np.concatenate([[0], np.cumsum(away.sum(axis=0))]).astype(np.int32)
    row = np.repeat(np.arange(grid.chips), away.sum(axis=0))
    hop = np.arange(ptr[-1]) - ptr[row]
    links = np.empty(len(row), np.int32)
    at = np.repeat(source[:, None], len(row), axis=1)
    passed = np.zeros(grid.chips, np.int64)
    for k, stepped, count in zip(order, steps, away, strict=True):
        here = np.flatnonzero((hop >= passed[row]) & (hop < (passed + count)[row]))
        forwards = stepped[row[here]] > 0
        raw = source[k] + np.where(forwards, 1, -1) * (hop[here] - passed[row[here]])
        behind = np.flatnonzero(hop >= (passed + count)[row])
        at[k, here], at[k, behind] = raw % grid.size[k], target[k, row[behind]]
        chip = np.ravel_multi_index(tuple(at[:, here]), grid.size)
        links[here] = grid.links.number[k, np.where(forwards, 0, 1), chip]
        passed += count
    return Ways(ptr, links, grid.datelines(ptr, links))


def _steps(grid: Grid, source: int, target: Ints, length: int) -> Ints:
    """Signed hops along one dimension; the shorter way round a circle, forwards where equal."""
    hops = target - source
    if not grid.is_circle(length):
        return hops
    forwards = hops % length
    return np.where(grid.two_way & (2 * forwards > length), forwards - length, forwards)


def shortest(topology: Topology) -> Iterator[Ways]:
    """Shortest routes; of equal ones those whose links come first."""
    ends = topology.ends.tolist()
    leaving: list[list[int]] = [[] for _ in range(topology.chips)]
    for link, (a, _) in enumerate(ends):
        leaving[a].append(link)
    for source in range(topology.chips):
        ptr, links = _breadth_first(source, ends, leaving)
        yield Ways(ptr, links, topology.datelines(ptr, links))


def _breadth_first(
    source: int, ends: Sequence[Sequence[int]], leaving: Sequence[Sequence[int]]
) -> tuple[Ints, Ints]:
    came = {source: -1}
    reached = [source]
    for chip in reached:
        for link in leaving[chip]:
            there = ends[link][1]
            if there not in came:
                came[there] = link
                reached.append(there)
    ptr, links = [0], list[int]()
    for chip in range(len(leaving)):
        way: list[int] = []
        at = chip
        while came.get(at, -1) >= 0:
            way.append(came[at])
            at = ends[came[at]][0]
        links += reversed(way)
        ptr.append(len(links))
    return np.array(ptr, np.int32), np.array(links, np.int32)
