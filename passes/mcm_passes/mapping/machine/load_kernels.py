"""What a placement loads on a machine, as compiled code: the table of demands along routes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Ints, Longs
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.ring_rules import CLONED, FROM_HOST, HOST, SENT_ONCE, TO_HOST
from mcm_passes.mapping.loads.problem_arrays import (
    CROSSED,
    ENTERED,
    EXITED,
    RECEIVED,
    SENT,
    Measured,
    ProblemArrays,
    count_copies,
    live_bytes,
    own_loads,
)


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


@entry_njit
def loads_on_machine(p: ProblemArrays, routes: RouteArrays, chip_of: Ints) -> Measured:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range.

    A tensor goes from its maker, or the host, to each device that reads it, and to the host. Where
    another such device is on the way, and this route is the one to that and the one on from there,
    it is sent on from there.
    """
    own = own_loads(p, chip_of)
    loads = _TensorLoads(
        np.zeros(routes.leads_to.size, np.int64),
        np.zeros(p.num_chips, np.int64),
        np.zeros(p.live.size, np.bool_),
    )
    room = _Room(np.full(routes.num_devices, -1, np.int64), np.empty(routes.num_devices, np.int64))
    lost = _count_tensors(p, routes, chip_of, own.copies, room, loads)
    peak = live_bytes(p, chip_of, loads.leaves)
    return Measured(
        own.copies,
        own.busy_s,
        loads.channel_bytes,
        loads.held,
        own.weights,
        peak,
        own.largest,
        lost,
    )


class _TensorLoads(NamedTuple):
    """What tensors load.

    Attributes:
        channel_bytes: `[L]`.
        held: `[C]`, as in `Measured`.
        leaves: `[T]`, whether each leaves the device that makes it.
    """

    channel_bytes: Longs
    held: Longs
    leaves: Bools


class _Room(NamedTuple):
    """Room for what is only needed while a tensor is counted.

    Attributes:
        stamp: `[D]`, the last tensor that each device makes or reads.
        readers: `[D]`, devices that read the tensor.
    """

    stamp: Longs
    readers: Longs


@lean_inner_njit
def _count_tensors(
    p: ProblemArrays,
    routes: RouteArrays,
    chip_of: Ints,
    copies: Bools,
    room: _Room,
    loads: _TensorLoads,
) -> int:
    """Counts all tensors, and marks those that leave the device that makes them.

    Returns:
        How often a tensor is wanted where no route leads.
    """
    devices, lost = routes.num_devices, 0
    amount, crossed, held = p.columns.amount, loads.channel_bytes, loads.held
    for t in range(p.live.size):
        kind, producer = p.columns.kind[t], p.tensor_producer[t]
        if kind & CLONED:
            count_copies(p, t, copies, held)
            continue
        source = -1 if producer < 0 else int(chip_of[producer])
        count = _other_readers(p, chip_of, t, source, room)
        for i in range(count):
            held[room.readers[i]] += amount[t, RECEIVED]
        outgoing = (devices if source < 0 else source) * devices
        for i in range(count):
            to = int(room.readers[i])
            size = amount[t, ENTERED if source < 0 else CROSSED]
            begin = _sent_on(routes, outgoing, outgoing + to, to, room.stamp, t)
            lost += _cross(routes, outgoing + to, begin, size, crossed)
        if kind & FROM_HOST:
            continue
        apart = kind & SENT_ONCE == 0
        if kind & TO_HOST:
            row = devices * (devices + 1) + source
            begin = _sent_on(routes, outgoing, row, HOST, room.stamp, t)
            lost += _cross(routes, row, begin, amount[t, EXITED], crossed)
            held[source] += 0 if begin else amount[t, SENT]
            apart = apart or begin > 0
        if count and apart:
            held[source] += amount[t, SENT]
        loads.leaves[t] = count > 0 or (kind & TO_HOST) > 0
    return lost


@inlined_njit
def _other_readers(p: ProblemArrays, chip_of: Ints, t: int, source: int, room: _Room) -> int:
    """How many devices but its maker's read a tensor; they are listed, and all are stamped."""
    if source >= 0:
        room.stamp[source] = t
    count, readers = 0, p.readers
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        c = int(chip_of[readers.entries[e]])
        if room.stamp[c] != t:
            room.stamp[c] = t
            room.readers[count] = c
            count += 1
    return count


@inlined_njit
def _cross(routes: RouteArrays, row: int, begin: int, amount: int, crossed: Longs) -> int:
    """Counts a tensor on the channels of a route, from the `begin`-th on; 1 if there is none."""
    for k in range(routes.begin[row] + begin, routes.end[row]):
        crossed[routes.channels[k]] += amount
    return 1 if routes.begin[row] == routes.end[row] else 0


@inlined_njit
def _sent_on(routes: RouteArrays, outgoing: int, row: int, to: int, stamp: Longs, mark: int) -> int:
    """Behind how many channels of a route the last device is that sends the tensor on.

    Args:
        routes: of the machine.
        outgoing: row of the routes from the source, which come in the order of devices.
        row: of the route.
        to: the device that it leads to, or `HOST`.
        stamp: `[D]`, `mark` for the devices that have the tensor.
        mark: of the tensor.
    """
    devices = routes.num_devices
    first, end = int(routes.begin[row]), int(routes.end[row])
    for k in range(end - 2, first - 1, -1):
        via = int(routes.leads_to[routes.channels[k]])
        if via >= 0 and stamp[via] == mark:
            rest = devices * (devices + 1) + via if to < 0 else via * devices + to
            there = outgoing + via
            if _leads_on(routes, there, first, k + 1) and _leads_on(routes, rest, k + 1, end):
                return k + 1 - first
    return 0


@inlined_njit
def _leads_on(routes: RouteArrays, row: int, begin: int, end: int) -> bool:
    """Whether a row of routes is the part `begin` to `end` of all channels."""
    if routes.end[row] - routes.begin[row] != end - begin:
        return False
    for i in range(end - begin):
        if routes.channels[routes.begin[row] + i] != routes.channels[begin + i]:
            return False
    return True
