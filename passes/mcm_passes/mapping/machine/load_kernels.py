"""Loads of a placement on a machine, as compiled code: the table of demands along routes."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit, lean_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.ring_rules import HOST, SENT_ONCE, TO_HOST
from mcm_passes.mapping.loads.chip_demands import (
    CROSSED,
    ENTERED,
    EXITED,
    PASSED,
    RECEIVED,
    SENT,
    TensorDemands,
)
from mcm_passes.mapping.loads.problem_arrays import (
    Measured,
    ProblemArrays,
    count_own,
    count_view_copies,
    set_peaks,
)


class RouteArrays(NamedTuple):
    """The routes of a machine of D devices and L channels, as compiled code takes them.

    Attributes:
        begin: `[D * (D + 3)]`, rows as in `Machine.routes`.
        end: likewise.
        channels: of all rows.
        leads_to: `[L]`, the place at the end of each channel.
        num_devices: D.
        relays: whether engines of devices on the way pass tensors on.
        ring: whether the devices are the chips of a ring in order, of which none below the highest
            used one may be empty. Each route goes on from any device on it as the route from there
            does; with `relays` those from devices do on all machines.
    """

    begin: Longs
    end: Longs
    channels: Longs
    leads_to: Longs
    num_devices: int
    relays: bool
    ring: bool


_kept: weakref.WeakKeyDictionary[Machine, dict[tuple[bool, bool], RouteArrays]] = (
    weakref.WeakKeyDictionary()
)


def route_arrays(problem: PartitionProblem, machine: Machine | None = None) -> RouteArrays:
    """The routes of a machine that a problem is placed on: its own, or a larger one.

    They are kept as long as the machine lives: all pairs of devices have a route.
    """
    machine, ring = machine or problem.machine, problem.on_ring
    relays = problem.relays if ring else machine.relays
    kept = _kept.setdefault(machine, {})
    if (relays, ring) not in kept:
        arrays = (*machine.routes, machine.channel_ends[:, 1])
        begin, end, channels, leads_to = (np.array(array, np.int64) for array in arrays)
        kept[relays, ring] = RouteArrays(
            begin, end, channels, leads_to, machine.num_devices, relays, ring
        )
    return kept[relays, ring]


class Places(NamedTuple):
    """A placement on C of D devices, the first ones, of which chip k is one in some order.

    Attributes:
        chip_of: `[N]`, chip of each unit.
        device: `[C]`, device of each chip.
        held: `[C]`, memory of buffers on each device.
        busy_s: `[C]`, or more, seconds of each device at speed 1.
        kind_of: `[C]`, kind of each device.
        relay_s: `[K, T]`, seconds of a relay of each tensor on a device of each kind.
    """

    chip_of: Ints
    device: Longs
    held: Longs
    busy_s: Floats
    kind_of: Ints
    relay_s: Floats


class Ways(NamedTuple):
    """The ways of one tensor at a time, on a machine of D devices.

    Attributes:
        stamp: `[D]`, the last mark of a tensor that each device has.
        mark: `[1]`, of the present tensor; devices that pass it on have one more.
        readers: `[D]`, devices other than its maker's that read the tensor.
        begin: `[D + 1]`, where each of its ways begins in `RouteArrays.channels`.
        end: `[D + 1]`, where it ends; a way without channels leads nowhere.
        amount: `[D + 1]`, bytes that cross the way's channels.
    """

    stamp: Longs
    mark: Longs
    readers: Longs
    begin: Longs
    end: Longs
    amount: Longs


def empty_ways(num_devices: int) -> Ways:
    """Space for the ways of a tensor."""
    stamp, readers = np.zeros((2, num_devices), np.int64)
    begin, end, amount = np.zeros((3, num_devices + 1), np.int64)
    return Ways(stamp, np.zeros(1, np.int64), readers, begin, end, amount)


class OnDevices(NamedTuple):
    """Routes for placements whose chips are the first devices, with space to count them.

    Attributes:
        routes: of the machine.
        device: `[C]`, device of each chip: its own number.
        ways: space for one tensor; one thread at a time may use it.
    """

    routes: RouteArrays
    device: Longs
    ways: Ways


def on_devices(routes: RouteArrays, num_chips: int) -> OnDevices:
    """Those of a machine, with space of its own."""
    return OnDevices(routes, np.arange(num_chips), empty_ways(routes.num_devices))


@lean_njit
def count_loads(p: ProblemArrays, m: OnDevices, chip_of: Ints, found: Measured) -> None:
    """Sets loads to those of the placement `chip_of[N]`, whose entries are in range."""
    count_own(p, chip_of, found)
    _count_tensors(p, m, chip_of, found)
    count_view_copies(p, chip_of, found)
    set_peaks(p, chip_of, found)
    for c in range(p.num_chips):
        # What the host sends to each chip that wants it.
        row = m.routes.num_devices * m.routes.num_devices + c
        for k in range(m.routes.begin[row], m.routes.end[row] if found.entered[c] else 0):
            found.crossed[m.routes.channels[k]] += found.entered[c]
        for blocks in (found.held, found.weights, found.largest, found.peak):
            blocks[c] *= p.block_bytes


@lean_inner_njit
def _count_tensors(p: ProblemArrays, m: OnDevices, chip_of: Ints, found: Measured) -> None:
    """Counts all tensors, and marks those that leave the device that makes them."""
    found.crossed[:] = 0
    found.lost[0] = 0
    routes, ways, tensors = m.routes, m.ways, p.demands.tensors
    where = Places(chip_of, m.device, found.held, found.busy_s, p.kind_of, p.seconds.relay_s)
    for t in range(found.leaves.size):
        producer = tensors.producer[t]
        source = HOST if producer < 0 else int(chip_of[producer])
        if source >= 0 and not tensors.kind[t] & TO_HOST:
            first = last = source
            for e in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
                c = int(chip_of[tensors.readers.entries[e]])
                first, last = min(first, c), max(last, c)
            found.leaves[t] = first < last
            if first == last:
                continue
            if routes.ring and first == source:
                count_run(tensors, t, where, (first, last), 1, routes.relays, ways)
                for c in range(first, last):
                    found.crossed[c] += tensors.amount[t, CROSSED]
                continue
        count = count_ways(routes, tensors, t, tensors.readers, where, source, 1, ways)
        for i in range(count):
            found.lost[0] += int(ways.begin[i] == ways.end[i])
            for k in range(ways.begin[i], ways.end[i]):
                found.crossed[routes.channels[k]] += ways.amount[i]
        found.leaves[t] = count > 0 and producer >= 0


@inlined_njit
def count_run(
    tensors: TensorDemands,
    t: int,
    where: Places,
    ends: tuple[int, int],
    sign: int,
    relays: bool,
    ways: Ways,
) -> None:
    """As `count_ways` on a ring, for a tensor between chips; the links are left to the caller."""
    amount, (first, last) = tensors.amount, ends
    where.held[first] += sign * amount[t, SENT]
    for c in range(first + 1, last if relays else first):
        where.held[c] += sign * (amount[t, RECEIVED] + amount[t, PASSED])
        where.busy_s[c] += sign * where.relay_s[where.kind_of[c], t]
    if relays:
        where.held[last] += sign * amount[t, RECEIVED]
        return
    ways.mark[0] += 2
    for e in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
        c = where.chip_of[tensors.readers.entries[e]]
        if c > first and ways.stamp[c] < ways.mark[0]:
            ways.stamp[c] = ways.mark[0]
            where.held[c] += sign * amount[t, RECEIVED]


@lean_inner_njit
def count_ways(
    routes: RouteArrays,
    tensors: TensorDemands,
    t: int,
    readers: Rows,
    where: Places,
    source: int,
    sign: int,
    ways: Ways,
) -> int:
    """Counts the buffers and relays of a tensor, and lists its ways.

    A tensor goes from its maker, or the host, to each device that reads it, and to the host. Each
    way begins at the last device on the route that has the tensor by then, if the routes to it and
    on from it are parts of this one. Where engines pass it on, all devices that it comes through
    have it.

    Args:
        routes: of the machine.
        tensors: the demands of tensors.
        t: the tensor, which no clonable unit makes.
        readers: `[T]` rows of the units that read each tensor.
        where: the placement; what its devices hold and do changes.
        source: the chip that makes the tensor, or `HOST`.
        sign: 1 to count it, -1 to take it off.
        ways: filled in.

    Returns:
        How many ways there are.
    """
    kind, amount, held = tensors.kind[t], tensors.amount, where.held
    ways.mark[0] += 2
    mark, maker = ways.mark[0], routes.num_devices
    if source >= 0:
        maker = where.device[source]
        ways.stamp[maker] = mark
    count = 0
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        device = where.device[where.chip_of[readers.entries[e]]]
        if ways.stamp[device] < mark:
            ways.stamp[device] = mark
            ways.readers[count] = device
            held[device] += sign * amount[t, RECEIVED]
            count += 1
    crossed = sign * amount[t, ENTERED if source < 0 else CROSSED]
    for i in range(count):
        to = ways.readers[i]
        row = int(maker * routes.num_devices + to)
        _set_way(routes, int(maker), row, int(to), ways, i, crossed)
        if routes.relays and source >= 0:
            _pass_on(routes, int(routes.begin[row]), tensors, t, where, sign, ways, i)
    if source < 0:
        return count
    if count and not kind & SENT_ONCE:
        held[maker] += sign * amount[t, SENT]
    if not kind & TO_HOST:
        return count
    out = routes.num_devices * (routes.num_devices + 1) + maker
    _set_way(routes, maker, out, HOST, ways, count, sign * amount[t, EXITED])
    # With one set of buffers for all, that which the next device gets serves the host, too.
    if kind & SENT_ONCE or ways.begin[count] == routes.begin[out]:
        held[maker] += sign * amount[t, SENT]
    return count + 1


@inlined_njit
def _pass_on(
    routes: RouteArrays,
    first: int,
    tensors: TensorDemands,
    t: int,
    where: Places,
    sign: int,
    ways: Ways,
    way: int,
) -> None:
    """Counts what engines on a way receive and pass on; `first` is where its route begins."""
    mark = ways.mark[0]
    for k in range(max(ways.begin[way], first + 1), ways.end[way]):
        at = routes.leads_to[routes.channels[k - 1]]
        if at >= where.kind_of.size:
            # No engine of the devices in use.
            ways.end[way] = ways.begin[way]
            return
        if ways.stamp[at] <= mark:
            where.held[at] += sign * tensors.amount[t, PASSED]
            if ways.stamp[at] < mark:
                where.held[at] += sign * tensors.amount[t, RECEIVED]
            where.busy_s[at] += sign * where.relay_s[where.kind_of[at], t]
            ways.stamp[at] = mark + 1


@inlined_njit
def _set_way(
    routes: RouteArrays, maker: int, row: int, to: int, ways: Ways, way: int, amount: int
) -> None:
    """Sets a way: the part of a route behind the last device on it that sends the tensor on.

    Args:
        routes: of the machine.
        maker: the device that the route comes from; D for the host.
        row: of the route.
        to: the device that it leads to, or `HOST`.
        ways: of the tensor; what is stamped with its mark, or more, has it.
        way: the place among them.
        amount: what crosses it.
    """
    devices, mark = routes.num_devices, ways.mark[0]
    first, end = int(routes.begin[row]), int(routes.end[row])
    ways.begin[way], ways.end[way], ways.amount[way] = first, end, amount
    for k in range(end - 1, first, -1):
        via = routes.leads_to[routes.channels[k - 1]]
        if via >= 0 and ways.stamp[via] >= mark:
            rest = devices * (devices + 1) + via if to < 0 else via * devices + to
            nested = routes.ring or (routes.relays and maker < devices)
            if nested or (
                _leads_on(routes, int(maker * devices + via), first, k)
                and _leads_on(routes, int(rest), k, end)
            ):
                ways.begin[way] = k
                return


@inlined_njit
def _leads_on(routes: RouteArrays, row: int, begin: int, end: int) -> bool:
    """Return whether a row of routes is the part `begin` to `end` of all channels."""
    if routes.end[row] - routes.begin[row] != end - begin:
        return False
    for i in range(end - begin):
        if routes.channels[routes.begin[row] + i] != routes.channels[begin + i]:
            return False
    return True
