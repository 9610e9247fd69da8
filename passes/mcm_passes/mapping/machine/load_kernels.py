"""What a placement loads on a machine, as compiled code: the table of demands along routes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
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
        relays: whether engines of devices on the way pass tensors on.
        nested: whether each route goes on from any device on it as the route from there does; with
            `relays` those from devices do in any case.
    """

    begin: Longs
    end: Longs
    channels: Longs
    leads_to: Longs
    num_devices: int
    relays: bool
    nested: bool


def route_arrays(problem: PartitionProblem) -> RouteArrays:
    """The routes of the machine of a problem."""
    machine, ring = problem.machine, problem.on_ring
    relays = problem.relays if ring else machine.relays
    arrays = (*machine.routes, machine.channel_ends[:, 1])
    begin, end, channels, leads_to = (np.array(array, np.int64) for array in arrays)
    return RouteArrays(begin, end, channels, leads_to, machine.num_devices, relays, ring)


class TensorAmounts(Protocol):
    """The demands of tensors that `count_ways` reads, as in `TensorColumns`."""

    @property
    def kind(self) -> Longs: ...
    @property
    def amount(self) -> Longs: ...


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
    where = Places(chip_of, device, held, own.busy_s, p.kind_of, p.relay_s)
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
    tensors: TensorAmounts,
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
            nested = routes.nested or (routes.relays and maker < devices)
            if nested or (
                _leads_on(routes, int(maker * devices + via), first, k)
                and _leads_on(routes, int(rest), k, end)
            ):
                ways.begin[way] = k
                return


@inlined_njit
def _leads_on(routes: RouteArrays, row: int, begin: int, end: int) -> bool:
    """Whether a row of routes is the part `begin` to `end` of all channels."""
    if routes.end[row] - routes.begin[row] != end - begin:
        return False
    for i in range(end - begin):
        if routes.channels[routes.begin[row] + i] != routes.channels[begin + i]:
            return False
    return True
