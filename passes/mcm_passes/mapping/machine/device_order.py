"""An order of the devices of a machine in which neighbours are close to each other."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Longs
from mcm_compiler.machines.machine import Machine

MOST_STARTS = 8
"""Devices that walks begin at, where devices differ."""


def hops_between(machine: Machine, num_devices: int) -> Longs:
    """`[D, D]`, channels on routes between the first `num_devices`; very many without a route."""
    count = machine.num_devices
    hops = machine.routes.lengths[: count * count].reshape(count, count)
    hops = np.where(machine.reaches, hops, np.int64(1) << 20).astype(np.int64)
    return np.ascontiguousarray(hops[:num_devices, :num_devices])


def walk_over_devices(machine: Machine, num_devices: int, start: int = 0) -> Longs:
    """`[D]`, the devices in the order of a walk over all of them that hardly ever jumps.

    From each device it goes on to the nearest one that it has not seen, and of several such to the
    one that has fewest others beside it (Warnsdorff's rule), so that no corner is left behind.
    """
    hops = hops_between(machine, num_devices)
    near = np.minimum(hops, hops.T)
    left = np.ones(num_devices, np.bool_)
    order = np.empty(num_devices, np.int64)
    beside = (near == 1).sum(axis=1)
    at = start
    for place in range(num_devices):
        order[place] = at
        left[at] = False
        beside[near[at] == 1] -= 1
        rest = np.flatnonzero(left)
        if rest.size:
            at = int(rest[np.lexsort((rest, beside[rest], hops[at, rest]))[0]])
    return order


def walks_over_devices(machine: Machine, num_devices: int) -> list[Longs]:
    """Orders of the devices to choose from: one walk where they are alike, else several.

    Where devices differ, it matters which of them are first. Walks begin at the first and the last
    device of each sort, and lead either way.
    """
    kinds = machine.device_kind
    sorts = np.stack([machine.memory_bytes, machine.speed, 0 * machine.speed], axis=1)[:num_devices]
    if kinds is not None:
        sorts[:, 2] = kinds[:num_devices]
    _, first = np.unique(sorts, axis=0, return_index=True)
    if first.size < 2:
        return [walk_over_devices(machine, num_devices)]
    _, last = np.unique(sorts[::-1], axis=0, return_index=True)
    starts = np.unique(np.concatenate([first, num_devices - 1 - last])).tolist()
    walks = [walk_over_devices(machine, num_devices, start) for start in starts[:MOST_STARTS]]
    return [order for walk in walks for order in (walk, walk[::-1].copy())]
