"""The compiled inner loop of local search: moves of units with all that must move along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs
from mcm_passes.partitioning.fast_kernels import ProblemArrays
from mcm_passes.partitioning.period_kernels import RuleArrays, loads_of
from mcm_passes.solver.random_stream import uniform

Words = npt.NDArray[np.uint64]

FOLLOW_UPS = 4
"""Most moves of one step."""


class MoveGraph(NamedTuple):
    """Dependencies between units with a place of their own, by unit.

    Attributes:
        next_ptr: `[N + 1]`, CSR of successors.
        next_units: distinct successors.
        before_ptr: `[N + 1]`, CSR of predecessors.
        before_units: distinct predecessors.
    """

    next_ptr: Longs
    next_units: Ints
    before_ptr: Longs
    before_units: Ints


class Walk(NamedTuple):
    """One walk from partition to partition; all arrays change as it goes on.

    Attributes:
        chip_of: `[N]`, where it is; entries of clonable units mean nothing.
        best: `[N]`, the best partition since `best_s` was set.
        best_s: `[1]`, its period.
        score: `[1]`, of `chip_of`.
        history: `[H]`, scores of the last steps.
        step: `[1]`, steps made.
        stream: `[1]`, state of its random stream.
    """

    chip_of: Ints
    best: Ints
    best_s: Floats
    score: Floats
    history: Floats
    step: Longs
    stream: Words


@njit(cache=True, nogil=True)
def start_walk(
    p: ProblemArrays, r: RuleArrays, walk: Walk, chip_of: Ints, reference_s: float
) -> None:
    """Puts a walk to a valid partition."""
    loads = np.empty((5, p.num_chips))
    walk.chip_of[:] = chip_of
    walk.best[:] = chip_of
    walk.best_s[0] = loads_of(p, r, walk.chip_of, loads)
    walk.score[0] = _score(loads, reference_s)
    walk.history[:] = walk.score[0]


@njit(cache=True, nogil=True)
def take_steps(
    p: ProblemArrays, r: RuleArrays, g: MoveGraph, walk: Walk, reference_s: float, steps: int
) -> None:
    """Proposes `steps` changes, one evaluation each.

    A step moves a unit to a neighbouring chip, with all units on the way whose dependencies would
    point backwards otherwise, and then perhaps pushes others on, or back. Half of the steps start
    at the busiest resource. They are accepted late (Burke and Bykov 2017, *The late acceptance
    hill-climbing heuristic*) by a sum of high powers of all loads, which, unlike their maximum,
    tells which of two partitions is closer to a better one.
    """
    n = walk.chip_of.size
    loads = np.zeros((5, p.num_chips))
    moved = np.empty(n * FOLLOW_UPS, np.int32)
    moved_from = np.empty(n * FOLLOW_UPS, np.int32)
    stack = np.empty(n, np.int32)
    hot = _busiest(p, r, walk, loads)
    for _ in range(steps):
        count = _propose(p, g, walk.chip_of, hot, walk.stream, moved, moved_from, stack)
        period = np.inf
        if count > 0:
            period = loads_of(p, r, walk.chip_of, loads)
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
                    walk.best[:] = walk.chip_of
        if not accepted:
            for k in range(count - 1, -1, -1):
                walk.chip_of[moved[k]] = moved_from[k]
        walk.history[slot] = walk.score[0]


@njit(cache=True, nogil=True)
def draw_neighbours(
    p: ProblemArrays, g: MoveGraph, chip_of: Ints, hot: int, count: int, stream: Words
) -> Ints:
    """`[count, N]`, partitions one step away; some may be invalid, or `chip_of` itself.

    Args:
        p: the problem.
        g: its dependencies.
        chip_of: `[N]`, a valid partition.
        hot: the chip at which most steps start.
        count: B.
        stream: `[1]`, state of a random stream.
    """
    n = chip_of.size
    rows = np.empty((count, n), np.int32)
    moved = np.empty(n * FOLLOW_UPS, np.int32)
    moved_from = np.empty(n * FOLLOW_UPS, np.int32)
    stack = np.empty(n, np.int32)
    for b in range(count):
        rows[b] = chip_of
        _propose(p, g, rows[b], hot, stream, moved, moved_from, stack)
    return rows


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _hottest(loads: Floats) -> int:
    """The chip that the busiest resource belongs to."""
    most, at = -1.0, 0
    for k in range(loads.shape[0]):
        for c in range(loads.shape[1]):
            if loads[k, c] > most:
                most, at = loads[k, c], c
    return at


@njit(cache=True, nogil=True)
def _busiest(p: ProblemArrays, r: RuleArrays, walk: Walk, loads: Floats) -> int:
    loads_of(p, r, walk.chip_of, loads)
    return _hottest(loads)


@njit(cache=True, nogil=True)
def _propose(
    p: ProblemArrays,
    g: MoveGraph,
    chip_of: Ints,
    hot: int,
    stream: Words,
    moved: Ints,
    moved_from: Ints,
    stack: Ints,
) -> int:
    """Changes `chip_of`; returns how many entries of `moved` and `moved_from` undo it."""
    chips = p.num_chips
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
        to = chip + 1 if up else chip - 1
        if to < 0 or to >= chips:
            break
        lone = uniform(stream, 0) < 0.75
        unit = _unit_on(p, g, chip_of, chip, up, lone, stream)
        if unit < 0:
            break
        count = _move(g, chip_of, unit, to, moved, moved_from, count, stack)
        after = uniform(stream, 0)
        if after < 0.4:
            break
        # Go on from the chip that has just got something, onwards or back.
        chip = to
        if after < 0.7:
            up = not up
    return count


@njit(cache=True, nogil=True)
def _unit_on(
    p: ProblemArrays, g: MoveGraph, chip_of: Ints, chip: int, up: bool, lone: bool, stream: Words
) -> int:
    """A random unit on a chip, or -1; if `lone` one that can leave it without others."""
    found, seen = -1, 0
    for u in range(chip_of.size):
        if chip_of[u] != chip or p.clone_row[u] >= 0:
            continue
        free = True
        if lone and up:
            for k in range(g.next_ptr[u], g.next_ptr[u + 1]):
                if chip_of[g.next_units[k]] == chip:
                    free = False
                    break
        elif lone:
            for k in range(g.before_ptr[u], g.before_ptr[u + 1]):
                if chip_of[g.before_units[k]] == chip:
                    free = False
                    break
        if free:
            seen += 1
            if uniform(stream, 0) * seen < 1.0:
                found = u
    return found


@njit(cache=True, nogil=True)
def _move(
    g: MoveGraph,
    chip_of: Ints,
    unit: int,
    to: int,
    moved: Ints,
    moved_from: Ints,
    count: int,
    stack: Ints,
) -> int:
    """Moves a unit, and what must not be before or behind it; returns the new count."""
    up = to > chip_of[unit]
    moved[count], moved_from[count] = unit, chip_of[unit]
    count += 1
    chip_of[unit] = to
    size = 1
    stack[0] = unit
    while size:
        size -= 1
        u = stack[size]
        begin = g.next_ptr[u] if up else g.before_ptr[u]
        end = g.next_ptr[u + 1] if up else g.before_ptr[u + 1]
        for k in range(begin, end):
            v = g.next_units[k] if up else g.before_units[k]
            if chip_of[v] < to if up else chip_of[v] > to:
                moved[count], moved_from[count] = v, chip_of[v]
                count += 1
                chip_of[v] = to
                stack[size] = v
                size += 1
    return count
