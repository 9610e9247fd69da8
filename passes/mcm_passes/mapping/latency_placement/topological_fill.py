"""The baseline of Tarnawski et al. 2020 for latency: accelerators filled in topological order."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints
from mcm_passes.mapping.latency_placement.latency_problem import LatencyArrays


def topological_fill(p: LatencyArrays) -> Ints:
    """`[U]` devices: each accelerator takes units in order while they fit, CPUs take the rest.

    The order goes deep first: the unit that became ready last is next. A unit that no accelerator
    can hold goes to the CPUs and ends nothing (appendix F, "greedy").
    """
    device_of = np.full(p.size_bytes.size, p.accelerators, np.int32)
    used, room, is_open = 0, 0.0, False
    for unit in _deep_first(p):
        if is_open and (not p.allowed[unit] or p.size_bytes[unit] > room):
            is_open = False
            used += 1
        if not is_open and p.allowed[unit] and used < p.accelerators:
            is_open, room = True, p.memory_bytes
        if is_open:
            device_of[unit] = used
            room -= float(p.size_bytes[unit])
    return device_of


def _deep_first(p: LatencyArrays) -> list[int]:
    units = p.size_bytes.size
    following: list[list[int]] = [[] for _ in range(units)]
    waits = [0] * units
    for u in range(p.unit_of.size):
        for v in p.readers[p.reader_ptr[u] : p.reader_ptr[u + 1]].tolist():
            before, behind = int(p.unit_of[u]), int(p.unit_of[v])
            if before != behind:
                following[before].append(behind)
                waits[behind] += 1
    ready = [unit for unit in range(units) if not waits[unit]]
    order: dict[int, None] = {}
    for first in range(units):
        # Where nothing is ready, units wait for each other on a cycle: the first of them is next.
        if not ready and first not in order:
            ready.append(first)
        while ready:
            done = ready.pop()
            if done in order:
                continue
            order[done] = None
            for unit in following[done]:
                waits[unit] -= 1
                if not waits[unit]:
                    ready.append(unit)
    return list(order)
