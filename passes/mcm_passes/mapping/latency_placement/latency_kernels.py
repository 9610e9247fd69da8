"""The latency of a placement, compiled."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.mapping.latency_placement.latency_problem import LatencyArrays


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
        for e in range(p.reader_ptr[u], p.reader_ptr[u + 1]):
            v = p.readers[e]
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
    for e in range(p.reader_ptr[u], p.reader_ptr[u + 1]):
        v = p.readers[e]
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
