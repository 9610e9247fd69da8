"""What a placement loads on a machine, as compiled code: the table of demands along routes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.machine import Machine
from mcm_compiler.partition import Bools, Floats, Ints, Longs
from mcm_compiler.ring_routes import CLONED, FROM_HOST, SENT_ONCE, TO_HOST
from mcm_passes.mapping.loads.problem_arrays import (
    ProblemArrays,
    clone_copies,
    count_weights,
    needed_live_bytes,
    peak_live_bytes,
)
from mcm_passes.mapping.loads.tensor_columns import CROSSED, ENTERED, EXITED, MADE, RECEIVED, SENT


class RouteArrays(NamedTuple):
    """The routes of a machine of D devices and L channels, as compiled code takes them.

    Attributes:
        begin: `[D * (D + 3)]`, rows as in `Machine.routes`.
        end: likewise.
        channels: of all rows.
        leads_to: `[L]`, the place at the end of each channel.
        num_devices: D.
    """

    begin: Longs
    end: Longs
    channels: Longs
    leads_to: Longs
    num_devices: int


def route_arrays(machine: Machine) -> RouteArrays:
    """The routes of a machine."""
    routes = machine.routes
    return RouteArrays(
        np.ascontiguousarray(routes.begin, np.int64),
        np.ascontiguousarray(routes.end, np.int64),
        np.ascontiguousarray(routes.channels, np.int64),
        np.ascontiguousarray(machine.channel_ends[:, 1], np.int64),
        machine.num_devices,
    )


class MachineLoads(NamedTuple):
    """Loads of all resources, for C devices that may be used and L channels.

    Attributes:
        copies: `[K, C]`, the devices that hold a copy of each clonable unit.
        busy_s: `[C]`, at speed 1.
        channel_bytes: `[L]`.
        held: `[C]`, bytes of buffers that are taken for good.
        weights: `[C]`, bytes.
        peak: `[C]`, bytes of local activations in unit order, or at need of the hungriest kernel.
        largest: `[C]`, bytes of the largest weight.
        lost: tensors that have no route to some place where they are wanted, once for each.
    """

    copies: Bools
    busy_s: Floats
    channel_bytes: Longs
    held: Longs
    weights: Longs
    peak: Longs
    largest: Longs
    lost: int


@njit(cache=True)
def loads_on_machine(p: ProblemArrays, routes: RouteArrays, chip_of: Ints) -> MachineLoads:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range.

    A tensor goes from its maker to each device that reads it. Where another such device lies on
    the way, and this route is the one to that and the one on from there, it is sent on from there.
    """
    count = p.num_chips
    copies = clone_copies(p, chip_of)
    busy = np.zeros(count)
    for u in range(p.compute_s.size):
        row = p.clone_row[u]
        if row < 0:
            busy[chip_of[u]] += p.compute_s[u]
            continue
        for c in range(count):
            if copies[row, c]:
                busy[c] += p.compute_s[u]
    crossed = np.zeros(routes.leads_to.size, np.int64)
    held = np.zeros(count, np.int64)
    leaves = np.zeros(p.kind.size, np.bool_)
    stamp = np.full(routes.num_devices, -1, np.int64)
    lost = _count_tensors(p, routes, chip_of, copies, stamp, crossed, held, leaves)
    weights = np.zeros(count, np.int64)
    largest = np.zeros(count, np.int64)
    stamp[:] = -1
    count_weights(p, chip_of, stamp, weights, largest)
    peak = needed_live_bytes(p, chip_of) if p.need else peak_live_bytes(p, chip_of, leaves)
    return MachineLoads(copies, busy, crossed, held, weights, peak, largest, lost)


@njit(cache=True)
def _count_tensors(
    p: ProblemArrays,
    routes: RouteArrays,
    chip_of: Ints,
    copies: Bools,
    stamp: Longs,
    crossed: Longs,
    held: Longs,
    leaves: Bools,
) -> int:
    """Counts all tensors, and marks those that leave the device that makes them.

    Returns:
        How often a tensor is wanted where no route leads.
    """
    devices, lost = routes.num_devices, 0
    readers = np.empty(devices, np.int64)
    for t in range(p.kind.size):
        kind, producer = p.kind[t], p.tensor_producer[t]
        if kind & CLONED:
            for c in range(p.num_chips):
                if copies[p.clone_row[producer], c]:
                    held[c] += p.amount[t, MADE]
            continue
        source = -1 if producer < 0 else int(chip_of[producer])
        if source >= 0:
            stamp[source] = t
        count = 0
        for e in range(p.reader_ptr[t], p.reader_ptr[t + 1]):
            c = int(chip_of[p.readers[e]])
            if stamp[c] != t:
                stamp[c] = t
                held[c] += p.amount[t, RECEIVED]
                readers[count] = c
                count += 1
        if kind & FROM_HOST:
            for i in range(count):
                row = devices * devices + readers[i]
                lost += _cross(routes, row, 0, p.amount[t, ENTERED], crossed)
            continue
        for i in range(count):
            row = source * devices + readers[i]
            begin = _sent_on(routes, source, int(readers[i]), stamp, t)
            lost += _cross(routes, row, begin, p.amount[t, CROSSED], crossed)
        if count and not kind & SENT_ONCE:
            held[source] += p.amount[t, SENT]
        if kind & TO_HOST:
            held[source] += p.amount[t, SENT]
            row = devices * (devices + 1) + source
            lost += _cross(routes, row, 0, p.amount[t, EXITED], crossed)
        leaves[t] = count > 0 or (kind & TO_HOST) > 0
    return lost


@njit(cache=True)
def _cross(routes: RouteArrays, row: int, begin: int, amount: int, crossed: Longs) -> int:
    """Counts a tensor on the channels of a route, from the `begin`-th on; 1 if there is none."""
    for k in range(routes.begin[row] + begin, routes.end[row]):
        crossed[routes.channels[k]] += amount
    return 1 if routes.begin[row] == routes.end[row] else 0


@njit(cache=True)
def _sent_on(routes: RouteArrays, source: int, to: int, stamp: Longs, mark: int) -> int:
    """Behind how many channels of a route the last device lies that sends the tensor on."""
    devices = routes.num_devices
    row = source * devices + to
    first, end = int(routes.begin[row]), int(routes.end[row])
    for k in range(end - 2, first - 1, -1):
        via = routes.leads_to[routes.channels[k]]
        if via >= 0 and stamp[via] == mark:
            there, rest = source * devices + via, via * devices + to
            if _leads_on(routes, there, first, k + 1) and _leads_on(routes, rest, k + 1, end):
                return k + 1 - first
    return 0


@njit(cache=True)
def _leads_on(routes: RouteArrays, row: int, begin: int, end: int) -> bool:
    """Whether a row of routes is the part `begin` to `end` of all channels."""
    if routes.end[row] - routes.begin[row] != end - begin:
        return False
    for i in range(end - begin):
        if routes.channels[routes.begin[row] + i] != routes.channels[begin + i]:
            return False
    return True
