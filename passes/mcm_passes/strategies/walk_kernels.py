"""The compiled inner loop of local search: moves of nodes with all that must move along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.lean_kernels import lean_njit
from mcm_compiler.partition import Floats, Ints, Longs
from mcm_passes.solver.random_stream import uniform
from mcm_passes.strategies.placement_loads import loads_of_state
from mcm_passes.strategies.placement_state import (
    PlacedProblem,
    PlacementState,
    fill_state,
    place_node,
)

Words = npt.NDArray[np.uint64]

FOLLOW_UPS = 4
"""Most moves of one step."""

MOST_MOVED = 32
"""Nodes that a step may move; steps that would move more are hardly ever accepted."""

TRIES = 12
"""Nodes that are looked at to find one that can move without others."""


class Walk(NamedTuple):
    """One walk from partition to partition; all arrays change as it goes on.

    Attributes:
        state: where it is.
        best: `[n]`, the best partition since `best_s` was set.
        best_s: `[1]`, its period.
        score: `[1]`, of the state.
        history: `[H]`, scores of the last steps.
        step: `[1]`, steps made.
        stream: `[1]`, state of its random stream.
    """

    state: PlacementState
    best: Ints
    best_s: Floats
    score: Floats
    history: Floats
    step: Longs
    stream: Words


@njit(cache=True, nogil=True)
def start_walk(p: PlacedProblem, walk: Walk, chip_of: Ints, reference_s: float) -> None:
    """Puts a walk to a valid partition `[n]`."""
    loads = np.zeros((5, p.speed.size))
    fill_state(p, walk.state, chip_of)
    walk.best[:] = chip_of
    walk.best_s[0] = loads_of_state(p, walk.state, loads)
    walk.score[0] = _score(loads, reference_s)
    walk.history[:] = walk.score[0]


@njit(cache=True, nogil=True)
def take_steps(p: PlacedProblem, walk: Walk, reference_s: float, steps: int) -> None:
    """Proposes `steps` changes, and looks only at what each changes.

    A step moves a node to another chip, with all nodes on the way whose dependencies would point
    backwards otherwise, and then perhaps pushes others on, or back. Most steps start at the
    busiest resource. They are accepted late (Burke and Bykov 2017, *The late acceptance
    hill-climbing heuristic*) by a sum of high powers of all loads, which, unlike their maximum,
    tells which of two partitions is closer to a better one.
    """
    s = walk.state
    loads = np.zeros((5, p.speed.size))
    moved = np.empty(MOST_MOVED, np.int32)
    moved_from = np.empty(MOST_MOVED, np.int32)
    loads_of_state(p, s, loads)
    hot = _hottest(loads)
    for _ in range(steps):
        count = _propose(p, s, hot, walk.stream, moved, moved_from)
        period = np.inf
        if count > 0:
            period = loads_of_state(p, s, loads)
        slot = walk.step[0] % walk.history.size
        walk.step[0] += 1
        accepted = False
        if period < np.inf:
            score = _score(loads, reference_s)
            if score <= walk.score[0] or score <= walk.history[slot]:
                accepted = True
                walk.score[0] = score
                hot = _hottest(loads)
                if period < walk.best_s[0]:
                    walk.best_s[0] = period
                    walk.best[:] = s.chip
        if not accepted:
            _undo(p, s, moved, moved_from, count)
        walk.history[slot] = walk.score[0]


@njit(cache=True, nogil=True)
def draw_neighbours(
    p: PlacedProblem, s: PlacementState, hot: int, count: int, stream: Words
) -> Ints:
    """`[count, n]`, partitions one step away; some may be invalid, or the state's own.

    Args:
        p: the problem.
        s: a valid partition, which is the same afterwards.
        hot: the chip at which most steps start.
        count: B.
        stream: `[1]`, state of a random stream.
    """
    n = s.chip.size
    rows = np.empty((count, n), np.int32)
    moved = np.empty(MOST_MOVED, np.int32)
    moved_from = np.empty(MOST_MOVED, np.int32)
    for b in range(count):
        moves = _propose(p, s, hot, stream, moved, moved_from)
        rows[b] = s.chip
        _undo(p, s, moved, moved_from, moves)
    return rows


@lean_njit
def _undo(p: PlacedProblem, s: PlacementState, moved: Ints, moved_from: Ints, count: int) -> None:
    for k in range(count - 1, -1, -1):
        place_node(p, s, moved[k], moved_from[k])


@lean_njit
def _score(loads: Floats, reference_s: float) -> float:
    total = 0.0
    for k in range(loads.shape[0]):
        for c in range(loads.shape[1]):
            x = loads[k, c] / reference_s
            x *= x
            x *= x
            x *= x
            total += x * x
    return total


@lean_njit
def _hottest(loads: Floats) -> int:
    """The chip that the busiest resource belongs to."""
    most, at = -1.0, 0
    for k in range(loads.shape[0]):
        for c in range(loads.shape[1]):
            if loads[k, c] > most:
                most, at = loads[k, c], c
    return at


@lean_njit
def _propose(
    p: PlacedProblem,
    s: PlacementState,
    hot: int,
    stream: Words,
    moved: Ints,
    moved_from: Ints,
) -> int:
    """Changes the state; returns how many entries of `moved` and `moved_from` undo it."""
    chips = p.speed.size
    chip = hot
    kind = uniform(stream, 0)
    if kind < 0.25:
        # What loads a link may as well sit on the chip behind it.
        chip = min(hot + 1, chips - 1)
    elif kind >= 0.6:
        chip = int(uniform(stream, 0) * chips)
    up = uniform(stream, 0) < 0.5
    count = 0
    for _ in range(FOLLOW_UPS):
        node = _node_on(p, s, chip, up, uniform(stream, 0) < 0.75, stream)
        if node < 0:
            break
        to = chip + 1 if up else chip - 1
        if uniform(stream, 0) < 0.25:
            to = _chip_of_neighbour(p, s, node, up, stream)
        if to < 0 or to >= chips or to == chip:
            break
        if count == moved.size:
            break
        count = _move(p, s, node, to, moved, moved_from, count)
        if count < 0:
            return 0
        after = uniform(stream, 0)
        if after < 0.4:
            break
        # Go on from the chip that has just got something, onwards or back.
        chip = to
        if after < 0.7:
            up = not up
    return count


@lean_njit
def _node_on(
    p: PlacedProblem, s: PlacementState, chip: int, up: bool, lone: bool, stream: Words
) -> int:
    """A random node on a chip, or -1; if `lone` mostly one that can leave it without others."""
    if s.size[chip] == 0:
        return -1
    node = -1
    for _ in range(TRIES if lone else 1):
        node = s.members[chip, int(uniform(stream, 0) * s.size[chip])]
        free = True
        if up:
            for k in range(p.next_ptr[node], p.next_ptr[node + 1]):
                free = free and s.chip[p.next_nodes[k]] != chip
        else:
            for k in range(p.before_ptr[node], p.before_ptr[node + 1]):
                free = free and s.chip[p.before_nodes[k]] != chip
        if free:
            break
    return node


@lean_njit
def _chip_of_neighbour(
    p: PlacedProblem, s: PlacementState, node: int, up: bool, stream: Words
) -> int:
    """The chip of a random reader, or of a node that is read; -1 where there is none."""
    begin = p.next_ptr[node] if up else p.before_ptr[node]
    end = p.next_ptr[node + 1] if up else p.before_ptr[node + 1]
    if begin == end:
        return -1
    k = begin + int(uniform(stream, 0) * (end - begin))
    return int(s.chip[p.next_nodes[k] if up else p.before_nodes[k]])


@lean_njit
def _move(
    p: PlacedProblem,
    s: PlacementState,
    node: int,
    to: int,
    moved: Ints,
    moved_from: Ints,
    count: int,
) -> int:
    """Moves a node, and what must not be before or behind it.

    Returns:
        The new count; -1, with all moves taken back, where a pinned node would have to move, or
        too many nodes.
    """
    up = to > s.chip[node]
    begin = end = count
    moved[end] = node
    end += 1
    while begin < end:
        u = moved[begin]
        begin += 1
        if p.pinned[u] >= 0:
            _undo(p, s, moved, moved_from, count)
            return -1
        first = p.next_ptr[u] if up else p.before_ptr[u]
        last = p.next_ptr[u + 1] if up else p.before_ptr[u + 1]
        for k in range(first, last):
            v = p.next_nodes[k] if up else p.before_nodes[k]
            if not (s.chip[v] < to if up else s.chip[v] > to):
                continue
            known = False
            for i in range(count, end):
                known = known or moved[i] == v
            if known:
                continue
            if end == moved.size:
                _undo(p, s, moved, moved_from, count)
                return -1
            moved[end] = v
            end += 1
    for k in range(count, end):
        moved_from[k] = s.chip[moved[k]]
        place_node(p, s, moved[k], to)
    return end
