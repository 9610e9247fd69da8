"""A placement with the loads of all resources, kept up to date while single units move.

For local search, whose steps change few of thousands of units: a move costs what its unit's
tensors and items cost, not what the problem does. The numbers are those of the table of demands;
property tests compare them with the analytic model.

A placement is one on *chips*, positions of an order of the devices along which data flows, so that
no devices wait for each other in a circle. On a ring the order is that of the devices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_compiler.placements.compiled_rules import has_detours, last_reader
from mcm_compiler.placements.ring_rules import FORWARDED, HOST, TO_HOST
from mcm_passes.families.ring.moves.placed_problem import PlacedProblem
from mcm_passes.mapping.loads.chip_demands import CROSSED, LIVE
from mcm_passes.mapping.loads.device_memory import LivePeaks, end_unit, hold, streamed_weights
from mcm_passes.mapping.machine.load_kernels import Places, Ways, count_run, count_ways, empty_ways

HELD, WEIGHT, LOCAL, ARRIVED = range(4)
"""Rows of `Loads.blocks`."""

LAST_USED, LONG, STEP, FIRST, LAST = range(5)
"""Places of `PlacementState.counts`."""


class Loads(NamedTuple):
    """Loads and memory of D devices, of which C may be used, and of their L channels.

    Attributes:
        amount: `[D + L]`, seconds of units, clones, relays and copies on each device at speed 1,
            and bytes that cross each channel.
        blocks: `[4, C]`, memory for buffers and clones, for weights, for all tensors that stay on
            the device, and for all that ever arrived there.
        busiest_s: `[D + 1]`, seconds of the busiest resource of each owner; infinite where memory
            overflows.
        score: `[D + 1]`, sum of high powers of their loads.
        needed: `[C]`, blocks of memory.
        peak: `[C]`, no fewer blocks than what comes and goes takes at once.
        streamed: `[C]`, blocks of weights that are streamed; -1 where memory overflows.
        lost: `[1]`, how often a tensor is wanted where no route leads, or by engines of lower
            chips.
    """

    amount: Floats
    blocks: Longs
    busiest_s: Floats
    score: Floats
    needed: Longs
    peak: Longs
    streamed: Longs
    lost: Longs


class PlacementState(NamedTuple):
    """A placement and what follows from it; all arrays change with every move.

    Attributes:
        chip: `[N]`, chip of each unit; 0 for clonable ones.
        device: `[C]`, device of each chip.
        chip_at: `[D]`, chip of each device, or -1.
        members: `[C, N]`, row d begins with the units on device d, in no order.
        place: `[N]`, where each unit is in its row.
        size: `[C]`, units on each device.
        copies: `[I, C]`, units on each device that want each item.
        loads: of all resources.
        pairs: `[C, C]`, edges between each two chips, where the triangle rule holds.
        counts: `[5]`, on a ring the highest chip that is used, edges that span two chips, the
            present step, and the first and the last owner that it changed.
        changed: `[D + 1]`, the last step that changed what is loaded on each owner.
        where: the placement as `count_ways` takes it; its arrays are those above.
        ways: space for one tensor.
    """

    chip: Ints
    device: Longs
    chip_at: Longs
    members: Ints
    place: Ints
    size: Longs
    copies: Ints
    loads: Loads
    pairs: Longs
    counts: Longs
    changed: Longs
    where: Places
    ways: Ways


def empty_loads(p: PlacedProblem) -> Loads:
    """Space for loads."""
    chips, owners = p.machine.room.size, p.machine.routes.num_devices + 1
    return Loads(
        amount=np.zeros(p.machine.rate.size),
        blocks=np.zeros((4, chips), np.int64),
        busiest_s=np.zeros(owners),
        score=np.zeros(owners),
        needed=np.zeros(chips, np.int64),
        peak=np.zeros(chips, np.int64),
        streamed=np.zeros(chips, np.int64),
        lost=np.zeros(1, np.int64),
    )


def empty_state(p: PlacedProblem) -> PlacementState:
    """Space for the state of a placement; `fill_state` gives it one."""
    n, m, loads = p.fixed.size, p.machine, empty_loads(p)
    chips, devices = m.room.size, m.routes.num_devices
    chip, device = np.zeros(n, np.int32), np.arange(chips)
    held, busy_s = loads.blocks[HELD], loads.amount[:devices]
    return PlacementState(
        chip=chip,
        device=device,
        chip_at=np.full(devices, -1, np.int64),
        members=np.zeros((chips, n), np.int32),
        place=np.zeros(n, np.int32),
        size=np.zeros(chips, np.int64),
        copies=np.zeros((p.demands.items.busy_s.size, chips), np.int32),
        loads=loads,
        pairs=np.zeros((chips, chips), np.int64),
        counts=np.zeros(5, np.int64),
        changed=np.zeros(devices + 1, np.int64),
        where=Places(chip, device, held, busy_s, m.kind_of, m.seconds.relay_s),
        ways=empty_ways(devices),
    )


@inlined_njit
def begin_step(s: PlacementState) -> None:
    """Begins a step, which has changed nothing yet."""
    s.counts[STEP] += 1
    s.counts[FIRST], s.counts[LAST] = s.changed.size, -1


@inlined_njit
def _change(s: PlacementState, owner: int) -> None:
    """Takes note of an owner whose loads the step changes."""
    if s.changed[owner] != s.counts[STEP]:
        s.changed[owner] = s.counts[STEP]
        s.counts[FIRST] = min(s.counts[FIRST], owner)
        s.counts[LAST] = max(s.counts[LAST], owner)


@inlined_njit
def change_all(s: PlacementState) -> None:
    """Takes note of all owners."""
    for owner in range(s.changed.size):
        _change(s, owner)


@inlined_njit
def copy_changed(p: PlacedProblem, s: PlacementState, to: Loads, loads: Loads) -> None:
    """Sets the loads of all owners that the step changed to what others are, bit-identical."""
    devices, owned = s.chip_at.size, p.machine.owned
    to.lost[0] = loads.lost[0]
    for owner in range(s.counts[FIRST], s.counts[LAST] + 1):
        if s.changed[owner] != s.counts[STEP]:
            continue
        to.busiest_s[owner], to.score[owner] = loads.busiest_s[owner], loads.score[owner]
        for e in range(owned.ptr[owner], owned.ptr[owner + 1]):
            k = devices + owned.entries[e]
            to.amount[k] = loads.amount[k]
        if owner < to.needed.size:
            to.amount[owner] = loads.amount[owner]
            to.needed[owner], to.peak[owner] = loads.needed[owner], loads.peak[owner]
            to.streamed[owner] = loads.streamed[owner]
            for k in range(loads.blocks.shape[0]):
                to.blocks[k, owner] = loads.blocks[k, owner]


@lean_inner_njit
def fill_state(p: PlacedProblem, s: PlacementState, chip_of: Ints) -> None:
    """Puts a state to a placement `[N]`, whose units with a place are on chips in range.

    That is a step of its own.
    """
    begin_step(s)
    change_all(s)
    for c in range(s.device.size):
        s.chip_at[s.device[c]] = c
    s.size[:] = 0
    s.copies[:] = 0
    s.pairs[:] = 0
    s.loads.amount[:] = 0.0
    s.loads.blocks[:] = 0
    s.loads.lost[0] = 0
    s.counts[LAST_USED] = 0
    s.counts[LONG] = 0
    for u in range(chip_of.size):
        s.chip[u] = chip_of[u] if p.fixed[u] else 0
        if p.fixed[u]:
            _count_unit(p, s, u, 1, True)
            s.counts[LAST_USED] = max(s.counts[LAST_USED], s.chip[u])
    for u in range(chip_of.size if p.machine.strict else 0):
        _count_edges(p, s, u, s.chip[u], 1, False)
    for t in range(p.demands.tensors.producer.size):
        _count_tensor(p, s, t, _source(p, s, t), 1)


@inlined_njit
def place_unit(p: PlacedProblem, s: PlacementState, u: int, to: int) -> None:
    """Moves a unit with a place to a chip in range, whether or not the rules allow it."""
    old = int(s.chip[u])
    made = p.demands.nodes.made
    for e in range(made.ptr[u], made.ptr[u + 1]):
        for sign in (-1, 1):
            _count_tensor(p, s, made.entries[e], old if sign < 0 else to, sign)
    move_unit(p, s, u, to, True)
    _recount_views(p, s, u, old, to)
    _recount_read(p, s, u, old, to)


@inlined_njit
def move_unit(p: PlacedProblem, s: PlacementState, u: int, to: int, loads: bool) -> None:
    """Moves a unit and its edges; with `loads` what it and its items take on chips, too.

    Moves are taken back without loads, the last one first; `copy_changed` restores these.
    """
    old = int(s.chip[u])
    for sign in (-1, 1):
        s.chip[u] = old if sign < 0 else to
        _count_unit(p, s, u, sign, loads)
    if p.machine.strict:
        for sign in (-1, 1):
            _count_edges(p, s, u, old if sign < 0 else to, sign, True)
    last_used = max(int(s.counts[LAST_USED]), to)
    while s.size[s.device[last_used]] == 0:
        last_used -= 1
    s.counts[LAST_USED] = last_used


@inlined_njit
def exchange_devices(s: PlacementState, a: int, b: int) -> None:
    """Exchanges the devices of two chips, with their units and items; loads stay as they are."""
    first, second, members = s.device[a], s.device[b], s.members
    s.device[a], s.device[b], s.chip_at[first], s.chip_at[second] = second, first, b, a
    for k in range(max(s.size[first], s.size[second])):
        members[first, k], members[second, k] = members[second, k], members[first, k]
    s.size[first], s.size[second] = s.size[second], s.size[first]
    for i in range(s.copies.shape[0]):
        s.copies[i, first], s.copies[i, second] = s.copies[i, second], s.copies[i, first]


@lean_inner_njit
def swap_devices(p: PlacedProblem, s: PlacementState, a: int, b: int) -> None:
    """Exchanges the devices of two chips, whose engines pass nothing on, with all loads."""
    for c in (a, b):
        _count_chip(p, s, c, a, b, -1)
    exchange_devices(s, a, b)
    for c in (a, b):
        _count_chip(p, s, c, a, b, 1)


@lean_inner_njit
def _count_chip(p: PlacedProblem, s: PlacementState, c: int, a: int, b: int, sign: int) -> None:
    """Counts all of a chip's units and items, and their tensors where neither a nor b did yet.

    Chip c is a, which is counted first, or b.
    """
    made, device = p.demands.nodes.made, int(s.device[c])
    unit_s = p.machine.seconds.unit_s[p.machine.kind_of[device]]
    _change(s, device)
    for i in range(s.copies.shape[0]):
        if s.copies[i, device]:
            _count_item(p, s, i, device, sign)
    for k in range(s.size[device]):
        u = s.members[device, k]
        s.loads.amount[device] += sign * unit_s[u]
        for e in range(made.ptr[u], made.ptr[u + 1]):
            _count_tensor(p, s, made.entries[e], c, sign)
        for e in range(p.read.ptr[u], p.read.ptr[u + 1]):
            t = p.read.entries[e]
            source = _source(p, s, t)
            if source not in (a, b) and _first_on(p, s, t, a, b) == u:
                _count_tensor(p, s, t, source, sign)


@inlined_njit
def _first_on(p: PlacedProblem, s: PlacementState, t: int, a: int, b: int) -> int:
    """The first reader of a tensor that is on one of two chips; -1 where none is."""
    readers = p.demands.tensors.readers
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        if s.chip[readers.entries[e]] in (a, b):
            return int(readers.entries[e])
    return -1


@inlined_njit
def _recount_views(p: PlacedProblem, s: PlacementState, u: int, old: int, to: int) -> None:
    """Recounts the copies of views of what a unit writes that goes from one chip to another."""
    viewed, tensors = p.demands.nodes.viewed, p.demands.tensors
    for e in range(viewed.ptr[u], viewed.ptr[u + 1]):
        t = viewed.entries[e]
        source = int(s.chip[tensors.producer[t]])
        if _last_of(p, s, t) > source:
            device, copies = int(s.device[source]), int(to != source) - int(old != source)
            kind = p.machine.kind_of[device]
            s.loads.amount[device] += copies * p.machine.seconds.copied_s[kind, t]
            _change(s, device)


@inlined_njit
def _recount_read(p: PlacedProblem, s: PlacementState, u: int, old: int, to: int) -> None:
    """Recounts what a unit reads that goes from one chip to another."""
    for e in range(p.read.ptr[u], p.read.ptr[u + 1]):
        t = p.read.entries[e]
        source = _source(p, s, t)
        if _same_ways(p, s, t, u, old, to, source):
            continue
        for sign in (-1, 1):
            s.chip[u] = old if sign < 0 else to
            _count_tensor(p, s, t, source, sign)


@inlined_njit
def _same_ways(
    p: PlacedProblem, s: PlacementState, t: int, u: int, old: int, to: int, source: int
) -> bool:
    """Return whether a tensor takes the same ways after one of its readers went elsewhere."""
    readers, high = p.demands.tensors.readers, max(old, to)
    passed = p.demands.tensors.kind[t] & FORWARDED != 0
    line = p.machine.routes.ring and passed and min(old, to) >= source
    had, has = old == source, to == source
    for e in range(readers.ptr[t + 1] - 1, readers.ptr[t] - 1, -1):
        v = readers.entries[e]
        if v != u:
            c = s.chip[v]
            had = had or c == old
            has = has or c == to
            if (had and has) or (line and c >= high):
                return True
    return False


@inlined_njit
def _count_unit(p: PlacedProblem, s: PlacementState, u: int, sign: int, loads: bool) -> None:
    """Counts a unit and its items on its chip, or takes them off; with `loads` what they take."""
    nodes, device = p.demands.nodes, int(s.device[s.chip[u]])
    if sign > 0:
        s.place[u] = s.size[device]
        s.members[device, s.size[device]] = u
    s.size[device] += sign
    if sign < 0:
        other = s.members[device, s.size[device]]
        s.members[device, s.place[u]] = other
        s.place[other] = s.place[u]
    if loads:
        s.loads.amount[device] += sign * p.machine.seconds.unit_s[p.machine.kind_of[device], u]
        _change(s, device)
    for e in range(nodes.items.ptr[u], nodes.items.ptr[u + 1]):
        i = nodes.items.entries[e]
        s.copies[i, device] += sign
        if loads and s.copies[i, device] == max(sign, 0):
            _count_item(p, s, i, device, sign)


@inlined_njit
def _count_item(p: PlacedProblem, s: PlacementState, i: int, device: int, sign: int) -> None:
    """Counts an item on a device, or takes it off."""
    items, m, loads = p.demands.items, p.machine, s.loads
    loads.amount[device] += sign * m.seconds.item_s[m.kind_of[device], i]
    loads.blocks[HELD, device] += sign * items.held[i]
    loads.blocks[WEIGHT, device] += sign * items.weight[i]
    if items.in_bytes[i]:
        _cross_route(p, s, m.routes.num_devices**2 + device, sign * int(items.in_bytes[i]))


@inlined_njit
def _cross(p: PlacedProblem, s: PlacementState, begin: int, end: int, amount: int) -> None:
    """Counts bytes on the channels of a part of all routes."""
    m = p.machine
    for k in range(begin, end):
        channel = m.routes.channels[k]
        s.loads.amount[m.routes.num_devices + channel] += amount
        _change(s, int(m.owner[channel]))


@inlined_njit
def _cross_route(p: PlacedProblem, s: PlacementState, row: int, amount: int) -> None:
    """Counts bytes on all channels of a route."""
    routes = p.machine.routes
    _cross(p, s, int(routes.begin[row]), int(routes.end[row]), amount)


@inlined_njit
def _source(p: PlacedProblem, s: PlacementState, t: int) -> int:
    """The chip that makes a tensor, or `HOST`."""
    producer = p.demands.tensors.producer[t]
    return HOST if producer < 0 else int(s.chip[producer])


@inlined_njit
def _last_of(p: PlacedProblem, s: PlacementState, t: int) -> int:
    """The last chip that reads a tensor; one behind all chips where the host wants it."""
    tensors = p.demands.tensors
    if tensors.kind[t] & TO_HOST:
        return s.device.size
    return last_reader(tensors.readers.ptr, tensors.readers.entries, t, s.chip)


@lean_inner_njit
def _count_tensor(p: PlacedProblem, s: PlacementState, t: int, source: int, sign: int) -> None:
    """Counts what a tensor takes on its ways from a chip, or the host, or takes it off."""
    tensors, loads, m = p.demands.tensors, s.loads, p.machine
    last = _last_of(p, s, t)
    if source >= 0:
        device = int(s.device[source])
        _change(s, device)
        if last <= source:
            loads.blocks[LOCAL, device] += sign * tensors.amount[t, LIVE]
            loads.blocks[ARRIVED, device] += max(sign, 0) * tensors.amount[t, LIVE]
            return
        copied_s, writer = m.seconds.copied_s[m.kind_of[device], t], tensors.writer[t]
        if copied_s > 0.0 and (writer < 0 or s.chip[writer] != source):
            loads.amount[device] += sign * copied_s
    if m.routes.ring and source >= 0 and last < s.device.size:
        count_run(tensors, t, s.where, (source, last), sign, m.routes.relays, s.ways)
        for c in range(source, last):
            loads.amount[m.routes.num_devices + c] += sign * tensors.amount[t, CROSSED]
            _change(s, c + 1)
        return
    found = count_ways(m.routes, tensors, t, tensors.readers, s.where, source, sign, s.ways)
    to_devices = found - int(source >= 0 and tensors.kind[t] & TO_HOST != 0)
    for i in range(found):
        begin, end = int(s.ways.begin[i]), int(s.ways.end[i])
        passed = i < to_devices and source >= 0 and m.routes.relays
        if i < to_devices:
            _change(s, int(s.ways.readers[i]))
        if begin == end or (passed and not m.routes.ring and _turns_back(p, s, source, begin, end)):
            # Engines on the way may have been counted.
            change_all(s)
            loads.lost[0] += sign
        _cross(p, s, begin, end, int(s.ways.amount[i]))


@inlined_njit
def _turns_back(p: PlacedProblem, s: PlacementState, source: int, begin: int, end: int) -> bool:
    """Return whether engines would pass a tensor to a lower chip, which may close a circle.

    Args:
        p: the problem.
        s: the state.
        source: the chip that makes the tensor.
        begin: where the way to one of its readers begins in the channels of all routes.
        end: where it ends.
    """
    routes = p.machine.routes
    reader = routes.leads_to[routes.channels[end - 1]]
    before = source
    if begin > routes.begin[s.device[source] * routes.num_devices + reader]:
        before = int(s.chip_at[routes.leads_to[routes.channels[begin - 1]]])
    for k in range(begin, end):
        c = int(s.chip_at[routes.leads_to[routes.channels[k]]])
        if c < before:
            return True
        before = c
    return False


@inlined_njit
def _count_edges(
    p: PlacedProblem, s: PlacementState, u: int, at: int, sign: int, both: bool
) -> None:
    """Counts the edges of a unit on chip `at`, or takes them off; with `both` those to it, too."""
    for towards in range(1 + int(both)):
        next_to = p.before if towards else p.after
        for e in range(next_to.ptr[u], next_to.ptr[u + 1]):
            other = int(s.chip[next_to.entries[e]])
            source, target = (other, at) if towards else (at, other)
            s.pairs[source, target] += sign
            s.counts[LONG] += sign * int(target > source + 1)


@inlined_njit
def breaks_triangle_rule(s: PlacementState, longer: Bools) -> bool:
    """Return whether a direct dependency between chips has a longer parallel path (MCM, Eq. 4).

    Args:
        s: the state.
        longer: `[C, C]`, space.
    """
    return bool(s.counts[LONG]) and has_detours(s.pairs, s.counts[LAST_USED] + 1, longer)


@inlined_njit
def held_on(s: PlacementState, device: int) -> int:
    """Blocks that a device needs whatever comes and goes."""
    return int(s.loads.blocks[HELD, device] + s.loads.blocks[WEIGHT, device])


@lean_inner_njit
def find_peaks(p: PlacedProblem, s: PlacementState, space: LivePeaks, only: int) -> None:
    """Sets `peak` of one device, or of all with `only` -1, to what comes and goes, with its gaps.

    Live at once is what is made and read on one device, in the order of the units.
    """
    space.live[:] = 0
    space.most[:] = 0
    made, tensors = p.demands.nodes.made, p.demands.tensors
    for u in range(s.chip.size):
        device = int(s.device[s.chip[u]])
        if only >= 0 and device != only:
            continue
        for e in range(made.ptr[u], made.ptr[u + 1]):
            t = made.entries[e]
            if _last_of(p, s, t) <= s.chip[u]:
                hold(space, device, u, tensors.readers, t, tensors.amount[t, LIVE])
        end_unit(space, device, u)
    for device in range(s.size.size):
        if only < 0 or device == only:
            s.loads.peak[device] = int(np.ceil(space.most[device] * p.machine.packing))


@inlined_njit
def weigh_memory(
    p: PlacedProblem, s: PlacementState, space: LivePeaks, device: int, looks: Longs
) -> None:
    """Sets the memory that a device needs, and what it streams, which crosses channels.

    Args:
        p: the problem.
        s: the state; its `peak` is a limit.
        space: for counting.
        device: the device.
        looks: `[1]`, units that may be looked at where the device would overflow: all of them, to
            find the peak of what comes and goes again.
    """
    loads, m = s.loads, p.machine
    limit, held = loads.peak[device], held_on(s, device)
    # All that comes and goes may be live at once, and is no more than that.
    most = int(np.ceil(loads.blocks[LOCAL, device] * m.packing))
    may_look = looks[0] >= s.chip.size
    if may_look and held + min(most, limit) > m.room[device]:
        find_peaks(p, s, space, device)
        loads.peak[device] = min(loads.peak[device], limit)
    needed = held + min(most, loads.peak[device])
    streamed = 0
    if needed > m.room[device]:
        looks[0] -= may_look * s.chip.size
        streamed = _streamed(p, s, device, needed)
    more = max(streamed, 0) - max(loads.streamed[device], 0)
    loads.needed[device], loads.streamed[device] = needed, streamed
    if more:
        row = m.routes.num_devices * (m.routes.num_devices + 2) + device
        _cross_route(p, s, row, more * m.block_bytes)


@lean_inner_njit
def _streamed(p: PlacedProblem, s: PlacementState, device: int, needed: int) -> int:
    """As `streamed_weights`, for a device that needs `needed` blocks."""
    largest, items, m = 0, p.demands.nodes.items, p.machine
    for k in range(s.size[device] if m.streams else 0):
        u = s.members[device, k]
        for e in range(items.ptr[u], items.ptr[u + 1]):
            largest = max(largest, int(p.demands.items.weight[items.entries[e]]))
    weights, room = int(s.loads.blocks[WEIGHT, device]), int(m.room[device])
    return streamed_weights(needed, weights, largest, room, m.streams, m.stream_slots)
