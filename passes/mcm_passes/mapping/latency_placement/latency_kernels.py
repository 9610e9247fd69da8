"""The latency of a placement, compiled, and the arrays over units that searches work on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.rows import Rows, grouped_rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement.device_groups import components, in_order
from mcm_passes.mapping.device_placement.device_loads import MEMORY_SLACK


class LatencyArrays(NamedTuple):
    """N operators in U units that move as one; devices `0 .. K - 1` are accelerators, K the CPU.

    Attributes:
        unit_of: `[N]`, units in a topological order, those on a cycle next to each other.
        members: `[U]` rows: operators of each unit.
        readers: `[N]` rows: operators that read each operator's output.
        sources: `[N]` rows: operators that each operator reads.
        accelerator_time: `[N]`.
        cpu_time: `[N]`.
        transfer_time: `[N]`.
        size_bytes: `[U]`.
        allowed: `[U]`, whether accelerators can run the unit.
        accelerators: K.
        cores: CPU cores.
        memory_bytes: of each accelerator, with a margin for the rounding of sums.
    """

    unit_of: Ints
    members: Rows
    readers: Rows
    sources: Rows
    accelerator_time: Floats
    cpu_time: Floats
    transfer_time: Floats
    size_bytes: Floats
    allowed: Bools
    accelerators: int
    cores: int
    memory_bytes: float


def latency_arrays(problem: PlacementProblem) -> LatencyArrays:
    """Arrays of a problem; operators of one color are one unit."""
    unit_of = _units(problem)
    n, count = problem.num_operators, int(unit_of.max()) + 1
    barred = np.bincount(unit_of, ~problem.on_accelerator, count) > 0
    size = np.bincount(unit_of, problem.size_bytes, count).astype(np.float64)
    room = problem.memory_bytes * (1.0 + MEMORY_SLACK)
    return LatencyArrays(
        unit_of=unit_of,
        members=grouped_rows(unit_of, np.arange(n), count),
        readers=grouped_rows(problem.edge_source, problem.edge_target, n),
        sources=grouped_rows(problem.edge_target, problem.edge_source, n),
        accelerator_time=problem.accelerator_time,
        cpu_time=problem.cpu_time,
        transfer_time=problem.transfer_time,
        size_bytes=size,
        allowed=~barred & (size <= room),
        accelerators=problem.max_accelerators,
        cores=problem.max_cpus,
        memory_bytes=room,
    )


def _units(problem: PlacementProblem) -> Ints:
    """`[N]`: the colors; without a CPU, colors on a cycle are one unit.

    Two accelerators with colors of one cycle wait for each other where the rest of the cycle is on
    accelerators, too. An operator on a CPU waits for its own inputs alone and breaks the cycle.
    """
    source, target = problem.edge_source, problem.edge_target
    color = problem.color.astype(np.int64)
    joined = in_order(components(color, source, target), source, target)
    if problem.max_cpus:
        _, first, color = np.unique(color, return_index=True, return_inverse=True)
        place = np.argsort(np.lexsort((first, joined[first])))
        joined = place[color]
    return joined.astype(np.int32)


@entry_njit
def latency_of(p: LatencyArrays, place: Ints) -> float:
    """Latency with a CPU core for each operator; infinite where operators wait for themselves.

    Args:
        p: the problem.
        place: `[N]`, accelerators 0 to K - 1, K for the CPU.

    Returns:
        When the last operator is done; memory is not looked at.
    """
    n, k = place.size, p.accelerators
    load, waits = _loads_and_waits(p, place)
    ptr, by_place = _by_place(place, k)
    start = np.zeros(n + k)
    # What is ready to start: operators of the CPU, and n + a for the part of accelerator a.
    queue, tail, head = np.empty(n + k, np.int64), 0, 0
    for x in range(n + k):
        exists = ptr[x - n] < ptr[x - n + 1] if x >= n else place[x] == k
        if exists and waits[x] == 0:
            queue[tail] = x
            tail += 1
    done, latency = 0, 0.0
    while head < tail:
        x = queue[head]
        head += 1
        first, last = (ptr[x - n], ptr[x - n + 1]) if x >= n else (0, 1)
        finish = float(start[x] + (load[x - n] if x >= n else p.cpu_time[x]))
        latency = max(latency, finish)
        done += last - first
        for i in range(first, last):
            u = by_place[i] if x >= n else x
            tail = _tell_readers(p, place, u, finish, start, waits, queue, tail)
    return latency if done == n else np.inf


@inner_njit
def _loads_and_waits(p: LatencyArrays, place: Ints) -> tuple[Floats, Longs]:
    """`[K]` time of each part, and `[N + K]` edges that CPU operators and parts wait for."""
    n, k = place.size, p.accelerators
    load, waits, stamp = np.zeros(k), np.zeros(n + k, np.int64), np.full(k, -1)
    for u in range(n):
        home, leaves = place[u], False
        for e in range(p.readers.ptr[u], p.readers.ptr[u + 1]):
            v = p.readers.entries[e]
            to = place[v]
            leaves = leaves or to != home
            if to == k:
                waits[v] += 1
            elif to != home:
                waits[n + to] += 1
                # Once for each part that reads it.
                if stamp[to] != u:
                    stamp[to] = u
                    load[to] += p.transfer_time[u]
        if home < k:
            load[home] += p.accelerator_time[u] + (p.transfer_time[u] if leaves else 0.0)
    return load, waits


@inner_njit
def _by_place(place: Ints, k: int) -> tuple[Longs, Longs]:
    """`[K + 2]` starts of the devices in `[N]` operators by device."""
    ptr = np.zeros(k + 2, np.int64)
    for u in range(place.size):
        ptr[place[u] + 1] += 1
    for a in range(k + 1):
        ptr[a + 1] += ptr[a]
    by_place, at = np.empty(place.size, np.int64), ptr.copy()
    for u in range(place.size):
        by_place[at[place[u]]] = u
        at[place[u]] += 1
    return ptr, by_place


@inner_njit
def _tell_readers(
    p: LatencyArrays,
    place: Ints,
    u: int,
    finish: float,
    start: Floats,
    waits: Longs,
    queue: Longs,
    tail: int,
) -> int:
    """Notes that an operator is done; queues what has waited for it alone."""
    n, k = place.size, p.accelerators
    for e in range(p.readers.ptr[u], p.readers.ptr[u + 1]):
        v = p.readers.entries[e]
        if place[v] == place[u] and place[u] < k:
            continue
        y = v if place[v] == k else n + place[v]
        start[y] = max(start[y], finish)
        waits[y] -= 1
        if waits[y] == 0:
            queue[tail] = y
            tail += 1
    return tail


@inner_njit
def shared_work(p: LatencyArrays, place: Ints) -> float:
    """Time that the CPU cores need for their operators if none ever waits."""
    work = 0.0
    for v in range(place.size):
        if place[v] == p.accelerators:
            work += p.cpu_time[v]
    return work / max(p.cores, 1)


@inner_njit
def overflow_of(p: LatencyArrays, device_of: Ints) -> float:
    """Memory that accelerators lack under `[U]` devices, as a share of one's."""
    need = np.zeros(p.accelerators + 1)
    for u in range(device_of.size):
        need[device_of[u]] += p.size_bytes[u]
    lack = 0.0
    for a in range(p.accelerators):
        lack += max(need[a] - p.memory_bytes, 0.0)
    return lack / max(p.memory_bytes, 1.0)


OVERFLOW_WEIGHT = 4.0
"""Weight of missing memory in a walk's energy, per share of the memory of one accelerator."""

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
            near = p.sources if forward else p.readers
            for i in range(p.members.ptr[w], p.members.ptr[w + 1]):
                v = p.members.entries[i]
                for e in range(near.ptr[v], near.ptr[v + 1]):
                    if marked[p.unit_of[near.entries[e]]]:
                        marked[w] = True
        w += step


@inner_njit
def _target(p: LatencyArrays, device_of: Ints, unit: int, draw: float, pick: float) -> np.int64:
    """A device for a unit: mostly one that a neighbour is on, else any."""
    members, sources, readers = p.members, p.sources, p.readers
    i = members.ptr[unit] + int(pick * (members.ptr[unit + 1] - members.ptr[unit]))
    v = members.entries[i]
    before = sources.ptr[v + 1] - sources.ptr[v]
    behind = readers.ptr[v + 1] - readers.ptr[v]
    if draw >= NEAR:
        choices = p.accelerators + (1 if p.cores else 0)
        return np.int64((draw - NEAR) / (1.0 - NEAR) * choices)
    e = int(draw / NEAR * (before + behind))
    near = v
    if e < before:
        near = sources.entries[sources.ptr[v] + e]
    elif before + behind > 0:
        near = readers.entries[readers.ptr[v] + e - before]
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
