"""A random walk over placements towards low latency, compiled."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints
from mcm_passes.mapping.latency_placement.latency_kernels import (
    latency_of,
    overflow_of,
    shared_work,
)
from mcm_passes.mapping.latency_placement.latency_problem import LatencyArrays

OVERFLOW_WEIGHT = 4.0
"""What memory that is missing adds to a walk's energy, per share of one accelerator's."""

NEAR = 0.7
"""Share of moves to the device of a neighbour."""

ALONE, FORWARD = 0.4, 0.7
"""Below the first a unit moves alone, below the second with what depends on it."""


@inner_njit
def _reach(p: LatencyArrays, device_of: Ints, unit: int, forward: bool, marked: Bools) -> None:
    """Marks units on a unit's device that are reached from it within the device."""
    units = device_of.size
    marked[:] = False
    marked[unit] = True
    step = 1 if forward else -1
    w = unit + step
    while 0 <= w < units:
        if device_of[w] == device_of[unit]:
            for i in range(p.member_ptr[w], p.member_ptr[w + 1]):
                v = p.members[i]
                ptr, near = (p.source_ptr, p.sources) if forward else (p.reader_ptr, p.readers)
                for e in range(ptr[v], ptr[v + 1]):
                    if marked[p.unit_of[near[e]]]:
                        marked[w] = True
        w += step


@inner_njit
def _target(p: LatencyArrays, device_of: Ints, unit: int, draw: float, pick: float) -> np.int64:
    """A device for a unit: mostly one that a neighbour is on, else any."""
    i = p.member_ptr[unit] + int(pick * (p.member_ptr[unit + 1] - p.member_ptr[unit]))
    v = p.members[i]
    before = p.source_ptr[v + 1] - p.source_ptr[v]
    behind = p.reader_ptr[v + 1] - p.reader_ptr[v]
    if draw >= NEAR:
        choices = p.accelerators + (1 if p.cores else 0)
        return np.int64((draw - NEAR) / (1.0 - NEAR) * choices)
    e = int(draw / NEAR * (before + behind))
    near = v
    if e < before:
        near = p.sources[p.source_ptr[v] + e]
    elif before + behind > 0:
        near = p.readers[p.reader_ptr[v] + e - before]
    return np.int64(device_of[p.unit_of[near]])


@inner_njit
def _moved(p: LatencyArrays, now: Ints, draw: Floats, marked: Bools, trial: Ints) -> bool:
    """Writes a neighbour of `now` into `trial`; False where there is none or it cannot be."""
    unit, kind = int(draw[0] * now.size), draw[1]
    target = _target(p, now, unit, draw[2], kind)
    if target == now[unit]:
        return False
    if kind < ALONE:
        marked[:] = False
        marked[unit] = True
    else:
        _reach(p, now, unit, kind < FORWARD, marked)
    for u in range(now.size):
        trial[u] = target if marked[u] else now[u]
        if marked[u] and target < p.accelerators and not p.allowed[u]:
            return False
    return True


@entry_njit
def walk(
    p: LatencyArrays, device_of: Ints, draws: Floats, hot: float, cold: float
) -> tuple[Ints, float]:
    """Anneals from a placement whose latency is finite.

    A step moves one unit, or all units of its device that depend on it within the device, or that
    it depends on, to a device that a neighbour is on, or to any. CPU cores are as many as there are
    operators, but share the work of all.

    Args:
        p: the problem.
        device_of: `[U]`, where to start; within memory for the answer to be no worse.
        draws: `[S, 4]`, random numbers in [0, 1), one row a step.
        hot: temperature at first, in units of time.
        cold: temperature at last.

    Returns:
        `[U]` devices of the best placement that keeps the memory, and its latency; infinite where
        none was met.
    """
    units, steps = device_of.size, draws.shape[0]
    now, place = device_of.copy(), np.empty(p.unit_of.size, np.int32)
    best, least = device_of.copy(), np.inf
    marked, trial = np.zeros(units, np.bool_), device_of.copy()
    energy = np.inf
    for s in range(-1, steps):
        if s >= 0 and not _moved(p, now, draws[s], marked, trial):
            continue
        for v in range(place.size):
            place[v] = trial[p.unit_of[v]]
        latency = max(latency_of(p, place), shared_work(p, place))
        if latency == np.inf:
            continue
        lack = overflow_of(p, trial)
        reached = latency * (1.0 + OVERFLOW_WEIGHT * lack)
        if lack == 0.0 and latency < least:
            least = latency
            best[:] = trial
        heat = hot * (cold / hot) ** (max(s, 0) / steps)
        if reached <= energy or (s >= 0 and draws[s, 3] < np.exp((energy - reached) / heat)):
            energy = reached
            now[:] = trial
    return best, least
