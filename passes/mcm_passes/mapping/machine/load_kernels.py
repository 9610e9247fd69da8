"""What a placement loads on a machine, as compiled code: the table of demands along routes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.ring_rules import CLONED, HOST, SENT_ONCE, TO_HOST
from mcm_passes.mapping.loads.problem_arrays import (
    CROSSED,
    ENTERED,
    EXITED,
    PASSED,
    RECEIVED,
    SENT,
    Measured,
    ProblemArrays,
    count_copies,
    count_view_copies,
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
        relays: as in `Machine`.
    """

    begin: Longs
    end: Longs
    channels: Longs
    leads_to: Longs
    num_devices: int
    relays: bool


def route_arrays(machine: Machine) -> RouteArrays:
    """The routes of a machine."""
    routes = machine.routes
    return RouteArrays(
        np.ascontiguousarray(routes.begin, np.int64),
        np.ascontiguousarray(routes.end, np.int64),
        np.ascontiguousarray(routes.channels, np.int64),
        np.ascontiguousarray(machine.channel_ends[:, 1], np.int64),
        machine.num_devices,
        machine.relays,
    )


class TensorAmounts(Protocol):
    """The demands of tensors that `count_ways` reads, as in `TensorColumns`."""

    @property
    def kind(self) -> Longs: ...
    @property
    def amount(self) -> Longs: ...


class Places(NamedTuple):
    """A placement on C chips, which are devices in some order.

    Attributes:
        chip_of: `[N]`, chip of each unit.
        device: `[C]`, device of each chip.
        chip: `[D]`, chip of each device, or -1.
        held: `[C]`, memory of buffers on each chip.
        busy_s: `[C]`, seconds of each chip at speed 1.
        kind_of: `[C]`, kind of each device.
        relay_s: `[K, T]`, seconds of a relay of each tensor on a device of each kind.
    """

    chip_of: Ints
    device: Longs
    chip: Longs
    held: Longs
    busy_s: Floats
    kind_of: Ints
    relay_s: Floats


class Ways(NamedTuple):
    """The ways of one tensor at a time, on a machine of D devices.

    Attributes:
        stamp: `[D]`, the last mark of a tensor that each device makes or reads.
        mark: `[1]`, of the present tensor.
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


@entry_njit
def empty_ways(num_devices: int) -> Ways:
    """Space for the ways of a tensor."""
    return Ways(
        np.zeros(num_devices, np.int64),
        np.zeros(1, np.int64),
        np.zeros(num_devices, np.int64),
        np.zeros(num_devices + 1, np.int64),
        np.zeros(num_devices + 1, np.int64),
        np.zeros(num_devices + 1, np.int64),
    )


@entry_njit
def loads_on_machine(p: ProblemArrays, routes: RouteArrays, chip_of: Ints) -> Measured:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range."""
    own = own_loads(p, chip_of)
    held, device = np.zeros(p.num_chips, np.int64), np.arange(p.num_chips)
    chip = np.full(routes.num_devices, -1, np.int64)
    chip[: p.num_chips] = device
    where = Places(chip_of, device, chip, held, own.busy_s, p.kind_of, p.relay_s)
    channel_bytes = np.zeros(routes.leads_to.size, np.int64)
    leaves = np.zeros(p.live.size, np.bool_)
    ways = empty_ways(routes.num_devices)
    lost = _count_tensors(p, routes, where, own.copies, ways, channel_bytes, leaves)
    count_view_copies(p, chip_of, leaves, own.busy_s)
    peak = live_bytes(p, chip_of, leaves)
    return Measured(
        own.copies, own.busy_s, channel_bytes, where.held, own.weights, peak, own.largest, lost
    )


@lean_inner_njit
def _count_tensors(
    p: ProblemArrays,
    routes: RouteArrays,
    where: Places,
    copies: Bools,
    ways: Ways,
    channel_bytes: Longs,
    leaves: Bools,
) -> int:
    """Counts all tensors, and marks those that leave the device that makes them.

    Returns:
        How often a tensor is wanted where no route leads.
    """
    lost = 0
    for t in range(p.live.size):
        producer = p.tensor_producer[t]
        if p.columns.kind[t] & CLONED:
            count_copies(p, t, copies, where.held)
            continue
        source = HOST if producer < 0 else int(where.chip_of[producer])
        found = count_ways(routes, p.columns, t, p.readers, where, source, 1, ways)
        for i in range(found):
            lost += int(ways.begin[i] == ways.end[i])
            for k in range(ways.begin[i], ways.end[i]):
                channel_bytes[routes.channels[k]] += ways.amount[i]
        leaves[t] = found > 0 and producer >= 0
    return lost


@lean_inner_njit
def count_ways(
    routes: RouteArrays,
    tensors: TensorAmounts,
    t: int,
    readers: Rows,
    where: Places,
    source: int,
    sign: int,
    ways: Ways,
) -> int:
    """Counts the buffers and relays of a tensor, and lists its ways.

    Args:
        routes: of the machine.
        tensors: the demands of tensors.
        t: the tensor, which no clonable unit makes.
        readers: `[T]` rows of the units that read each tensor.
        where: the placement; what its chips hold and do changes.
        source: the chip that makes the tensor, or `HOST`.
        sign: 1 to count it, -1 to take it off.
        ways: filled in.

    Returns:
        How many ways there are.
    """
    if routes.relays and source >= 0:
        return _count_relayed(routes, tensors, t, readers, where, source, sign, ways)
    return _count_sent(routes, tensors, t, readers, where, source, sign, ways)


@inlined_njit
def _count_sent(
    routes: RouteArrays,
    tensors: TensorAmounts,
    t: int,
    readers: Rows,
    where: Places,
    source: int,
    sign: int,
    ways: Ways,
) -> int:
    """As `count_ways`, where no engine passes the tensor on.

    It goes from its maker, or the host, to each device that reads it, and to the host. Where
    another such device is on the way, and this route is the one to that and the one on from there,
    it is sent on from there.
    """
    kind, amount, devices = tensors.kind[t], tensors.amount, routes.num_devices
    ways.mark[0] += 1
    mark, row = ways.mark[0], devices
    if source >= 0:
        row = where.device[source]
        ways.stamp[row] = mark
    count = _other_readers(tensors, t, readers, where, sign, mark, ways)
    outgoing = row * devices
    for i in range(count):
        to = int(ways.readers[i])
        ways.amount[i] = sign * amount[t, ENTERED if source < 0 else CROSSED]
        _set_way(routes, outgoing, outgoing + to, to, ways, i)
    if source < 0:
        return count
    found, apart = count, kind & SENT_ONCE == 0
    if kind & TO_HOST:
        out = devices * (devices + 1) + row
        ways.amount[count] = sign * amount[t, EXITED]
        _set_way(routes, outgoing, out, HOST, ways, count)
        found += 1
        if ways.begin[count] > routes.begin[out]:
            apart = True
        else:
            where.held[source] += sign * amount[t, SENT]
    if count and apart:
        where.held[source] += sign * amount[t, SENT]
    return found


@inlined_njit
def _other_readers(
    tensors: TensorAmounts,
    t: int,
    readers: Rows,
    where: Places,
    sign: int,
    mark: int,
    ways: Ways,
) -> int:
    """Lists, counts and stamps the devices without the mark that read a tensor; how many."""
    count = 0
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        c = int(where.chip_of[readers.entries[e]])
        device = where.device[c]
        if ways.stamp[device] < mark:
            ways.stamp[device] = mark
            ways.readers[count] = device
            where.held[c] += sign * tensors.amount[t, RECEIVED]
            count += 1
    return count


@inlined_njit
def _count_relayed(
    routes: RouteArrays,
    tensors: TensorAmounts,
    t: int,
    readers: Rows,
    where: Places,
    source: int,
    sign: int,
    ways: Ways,
) -> int:
    """As `count_ways` for a tensor that a unit makes, where engines pass tensors on.

    Routes from one device form a tree. Each device of the tree receives the tensor; those inside
    of it pass it on, which takes their time and buffers. The host gets it from the last device of
    the tree on the way there.
    """
    kind, amount, devices, held = tensors.kind[t], tensors.amount, routes.num_devices, where.held
    # Devices that have the tensor are stamped with the mark, those that pass it on with one more.
    mark, maker = ways.mark[0] + 1, where.device[source]
    ways.mark[0] += 2
    ways.stamp[maker] = mark
    count = _other_readers(tensors, t, readers, where, sign, mark, ways)
    for i in range(count):
        row = maker * devices + ways.readers[i]
        first, end = int(routes.begin[row]), int(routes.end[row])
        begin = _had_from(routes, first, end, ways.stamp, mark)
        ways.begin[i], ways.end[i], ways.amount[i] = begin, end, sign * amount[t, CROSSED]
        for k in range(begin, end):
            at = maker if k == first else int(routes.leads_to[routes.channels[k - 1]])
            c = int(where.chip[at])
            if c < 0:
                # No engine of the chips in use.
                ways.end[i] = begin
                break
            if at != maker and ways.stamp[at] <= mark:
                held[c] += sign * amount[t, PASSED]
                if ways.stamp[at] < mark:
                    held[c] += sign * amount[t, RECEIVED]
                where.busy_s[c] += sign * where.relay_s[where.kind_of[at], t]
                ways.stamp[at] = mark + 1
    if count:
        held[source] += 0 if kind & SENT_ONCE else sign * amount[t, SENT]
    if not kind & TO_HOST:
        return count
    out = devices * (devices + 1) + maker
    begin = _had_from(routes, int(routes.begin[out]), int(routes.end[out]), ways.stamp, mark)
    ways.begin[count], ways.end[count] = begin, routes.end[out]
    ways.amount[count] = sign * amount[t, EXITED]
    if kind & SENT_ONCE or begin == routes.begin[out]:
        held[source] += sign * amount[t, SENT]
    return count + 1


@inlined_njit
def _had_from(routes: RouteArrays, first: int, end: int, stamp: Longs, mark: int) -> int:
    """Where a route goes on from the last device on it that has a tensor, in `routes.channels`."""
    for k in range(end - 2, first - 1, -1):
        via = int(routes.leads_to[routes.channels[k]])
        if via >= 0 and stamp[via] >= mark:
            return k + 1
    return first


@inlined_njit
def _set_way(routes: RouteArrays, outgoing: int, row: int, to: int, ways: Ways, place: int) -> None:
    """Sets a way of the tensor: the part of a route behind the last device that sends it on."""
    begin = _sent_on(routes, outgoing, row, to, ways.stamp, ways.mark[0])
    ways.begin[place] = routes.begin[row] + begin
    ways.end[place] = routes.end[row]


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
