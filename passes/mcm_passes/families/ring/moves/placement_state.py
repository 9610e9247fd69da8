"""A partition with the loads of all resources, kept up to date while single units move.

For local search, whose steps change few of thousands of units: a move costs what its unit's
tensors and items cost, not what the problem does. The numbers are those of the table of demands;
property tests hold them together with the fast model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_compiler.placements.ring_rules import FORWARDED, HOST, TO_HOST
from mcm_passes.families.ring.loads.ring_kernels import (
    HELD,
    HOST_IN,
    Loads,
    Marks,
    Way,
    count_received,
    count_tensor_apart,
)
from mcm_passes.families.ring.moves.channel_loads import (
    ChannelLoads,
    both_remain,
    clear_channels,
    count_on_channels,
    empty_channels,
)
from mcm_passes.families.ring.moves.placed_problem import (
    LAST_USED,
    LONG,
    MARK,
    PlacedProblem,
    count_edges,
)
from mcm_passes.mapping.loads.device_memory import LivePeaks, end_unit, hold, streamed_weights
from mcm_passes.mapping.loads.problem_arrays import LIVE
from mcm_passes.mapping.machine.load_kernels import Places

WEIGHT, LOCAL, ARRIVED = 4, 5, 6
"""Rows of `PlacementState.totals` behind those of `ring_kernels`."""


class PlacementState(NamedTuple):
    """A partition and what follows from it; all arrays change with every move.

    Attributes:
        chip: `[N]`, chip of each unit; 0 for clonable ones.
        members: `[C, N]`, row c begins with the units on chip c, in no order.
        place: `[N]`, where each unit is in its row.
        size: `[C]`, units on each chip.
        copies: `[I, C]`, units on each chip that want each item.
        last: `[T]`, the last chip with a reader of each tensor, or -1.
        at_last: `[T]`, readers there.
        busy_s: `[C]`, clocks of units, clones and relays in seconds of `work_s`.
        totals: `[7, C]`, bytes on the link behind each chip and on its host channels, blocks for
            buffers and clones, for weights, for all tensors that stay on the chip, and for all
            that ever came to stay there.
        pairs: `[C, C]`, edges between each two chips, where the triangle rule holds.
        counts: `[3]`, the highest chip that is used, the last mark, edges that span two chips.
        stamp: `[C]`, room for marks.
        device: `[C]`, device of each chip; the chips themselves on a ring.
        chip_at: `[D]`, chip of each device, or -1.
        channels: loads of channels, where the machine is no ring.
    """

    chip: Ints
    members: Ints
    place: Ints
    size: Longs
    copies: Ints
    last: Ints
    at_last: Ints
    busy_s: Floats
    totals: Longs
    pairs: Longs
    counts: Longs
    stamp: Longs
    device: Longs
    chip_at: Longs
    channels: ChannelLoads


class Undo(NamedTuple):
    """The last readers of tensors as they were, one entry for each time that a move recounts one.

    Attributes:
        tensor: `[R]`, as long as all that units read.
        last: `[R]`, as in `PlacementState`.
        at_last: `[R]`, likewise.
        size: `[1]`, entries.
    """

    tensor: Ints
    last: Ints
    at_last: Ints
    size: Longs


def empty_undo(p: PlacedProblem) -> Undo:
    """An empty record for moves of distinct units."""
    entries = [np.zeros(p.read.entries.size, np.int32) for _ in range(3)]
    return Undo(*entries, size=np.zeros(1, np.int64))


def empty_state(p: PlacedProblem) -> PlacementState:
    """Room for the state of a partition; `fill_state` gives it one."""
    n, chips = p.fixed.size, p.ring.room.size
    items, tensors = p.demands.items.busy_s.size, p.demands.tensors.producer.size
    return PlacementState(
        chip=np.zeros(n, np.int32),
        members=np.zeros((chips, n), np.int32),
        place=np.zeros(n, np.int32),
        size=np.zeros(chips, np.int64),
        copies=np.zeros((items, chips), np.int32),
        last=np.zeros(tensors, np.int32),
        at_last=np.zeros(tensors, np.int32),
        busy_s=np.zeros(chips),
        totals=np.zeros((7, chips), np.int64),
        pairs=np.zeros((chips, chips), np.int64),
        counts=np.zeros(3, np.int64),
        stamp=np.zeros(chips, np.int64),
        device=np.arange(chips),
        chip_at=np.full(p.network.routes.num_devices, -1, np.int64),
        channels=empty_channels(p.network),
    )


@entry_njit
def fill_state(p: PlacedProblem, s: PlacementState, chip_of: Ints) -> None:
    """Puts a state to a partition `[N]`, whose units with a place are on chips in range."""
    refill_state(p, s, chip_of)


@lean_inner_njit
def refill_state(p: PlacedProblem, s: PlacementState, chip_of: Ints) -> None:
    """As `fill_state`; channels change as a part of the present step."""
    clear_channels(s.channels)
    if p.network.used:
        for c in range(s.device.size):
            s.chip_at[s.device[c]] = c
    s.size[:] = 0
    s.copies[:] = 0
    s.busy_s[:] = 0.0
    s.totals[:] = 0
    s.pairs[:] = 0
    s.counts[LAST_USED] = 0
    s.counts[LONG] = 0
    for u in range(chip_of.size):
        s.chip[u] = chip_of[u] if p.fixed[u] else 0
        if p.fixed[u]:
            _count_unit(p, s, u, 1, True)
            s.counts[LAST_USED] = max(s.counts[LAST_USED], s.chip[u])
    for u in range(chip_of.size if p.ring.strict else 0):
        count_edges(p.graph, s.chip, u, s.chip[u], 1, False, s.pairs, s.counts)
    for t in range(p.demands.tensors.producer.size):
        _find_last(p, s, t)
        _count_tensor(p, s, t, _source(p, s, t), 1)


@inlined_njit
def place_unit(p: PlacedProblem, s: PlacementState, u: int, to: int, undo: Undo) -> None:
    """Moves a unit with a place to a chip in range, whether or not the rules allow it."""
    old = int(s.chip[u])
    made = p.demands.nodes.made
    for e in range(made.ptr[u], made.ptr[u + 1]):
        for sign in (-1, 1):
            _count_tensor(p, s, made.entries[e], old if sign < 0 else to, sign)
    _move_unit(p, s, u, to, True)
    _recount_views(p, s, u, old, to)
    _recount_read(p, s, u, old, to, undo)


@inlined_njit
def take_back(p: PlacedProblem, s: PlacementState, u: int, old: int) -> None:
    """Moves a unit back, the last that moved first; `busy_s` and `totals` are the caller's."""
    _move_unit(p, s, u, old, False)


@inlined_njit
def take_back_readers(s: PlacementState, undo: Undo) -> None:
    """Sets the last readers of all tensors back."""
    for k in range(undo.size[0] - 1, -1, -1):
        t = undo.tensor[k]
        s.last[t], s.at_last[t] = undo.last[k], undo.at_last[k]
    undo.size[0] = 0


@inlined_njit
def _move_unit(p: PlacedProblem, s: PlacementState, u: int, to: int, loads: bool) -> None:
    """Moves a unit and its edges; with `loads` what it and its items take on chips, too."""
    old = int(s.chip[u])
    for sign in (-1, 1):
        s.chip[u] = old if sign < 0 else to
        _count_unit(p, s, u, sign, loads)
    if p.ring.strict:
        for sign in (-1, 1):
            c = old if sign < 0 else to
            count_edges(p.graph, s.chip, u, c, sign, True, s.pairs, s.counts)
    last_used = max(int(s.counts[LAST_USED]), to)
    while s.size[last_used] == 0:
        last_used -= 1
    s.counts[LAST_USED] = last_used


@inlined_njit
def _recount_views(p: PlacedProblem, s: PlacementState, u: int, old: int, to: int) -> None:
    """Recounts the copies of views of what a unit writes that goes from one chip to another."""
    viewed, tensors = p.demands.nodes.viewed, p.demands.tensors
    for e in range(viewed.ptr[u], viewed.ptr[u + 1]):
        t = viewed.entries[e]
        source = int(s.chip[tensors.producer[t]])
        if int(s.last[t]) > source or tensors.kind[t] & TO_HOST:
            s.busy_s[source] += (int(to != source) - int(old != source)) * _copy_seconds(
                p, s, t, source
            )


@inlined_njit
def _recount_read(
    p: PlacedProblem, s: PlacementState, u: int, old: int, to: int, undo: Undo
) -> None:
    """Recounts what a unit reads that goes from one chip to another."""
    for e in range(p.read.ptr[u], p.read.ptr[u + 1]):
        t = p.read.entries[e]
        last = s.last[t]
        k = undo.size[0]
        undo.tensor[k], undo.last[k], undo.at_last[k] = t, last, s.at_last[t]
        undo.size[0] = k + 1
        same = to <= last and (old < last or s.at_last[t] > 1)
        if same and p.network.used:
            same = both_remain(p.demands.tensors.readers, t, s.chip, u, (old, to), _source(p, s, t))
        elif same:
            same = p.demands.tensors.kind[t] & FORWARDED != 0
        if same:
            # The way is the same.
            s.at_last[t] += int(to == last) - int(old == last)
            continue
        for sign in (-1, 1):
            s.chip[u] = old if sign < 0 else to
            if sign > 0:
                _find_last(p, s, t)
            _count_tensor(p, s, t, _source(p, s, t), sign)


@inlined_njit
def _count_unit(p: PlacedProblem, s: PlacementState, u: int, sign: int, loads: bool) -> None:
    """Counts a unit and its items on its chip, or takes them off; with `loads` what they take."""
    c, nodes, items = s.chip[u], p.demands.nodes, p.demands.items
    if sign > 0:
        s.place[u] = s.size[c]
        s.members[c, s.size[c]] = u
    s.size[c] += sign
    if sign < 0:
        other = s.members[c, s.size[c]]
        s.members[c, s.place[u]] = other
        s.place[other] = s.place[u]
    if loads:
        s.busy_s[c] += sign * _unit_seconds(p, s, u, c)
    for e in range(nodes.items.ptr[u], nodes.items.ptr[u + 1]):
        i = nodes.items.entries[e]
        s.copies[i, c] += sign
        if loads and s.copies[i, c] == max(sign, 0):
            s.busy_s[c] += sign * _item_seconds(p, s, i, c)
            s.totals[HOST_IN, c] += sign * items.in_bytes[i]
            s.totals[HELD, c] += sign * items.held[i]
            s.totals[WEIGHT, c] += sign * items.weight[i]


@inlined_njit
def _unit_seconds(p: PlacedProblem, s: PlacementState, u: int, c: int) -> float:
    """Seconds of a unit on a chip, at speed 1."""
    if p.network.used:
        return p.network.unit_s[p.network.kind_of[s.device[c]], u]
    return p.demands.nodes.work_s[u]


@inlined_njit
def _item_seconds(p: PlacedProblem, s: PlacementState, i: int, c: int) -> float:
    """Seconds of an item on a chip, likewise."""
    if p.network.used:
        return p.network.item_s[p.network.kind_of[s.device[c]], i]
    return p.demands.items.busy_s[i]


@inlined_njit
def _copy_seconds(p: PlacedProblem, s: PlacementState, t: int, c: int) -> float:
    """Seconds of the copy of a view on a chip, likewise."""
    if p.network.used:
        return p.network.copied_s[p.network.kind_of[s.device[c]], t]
    return p.demands.tensors.copied_s[t]


@inlined_njit
def _source(p: PlacedProblem, s: PlacementState, t: int) -> int:
    """The chip that makes a tensor, or `HOST`."""
    producer = p.demands.tensors.producer[t]
    return HOST if producer < 0 else int(s.chip[producer])


@inlined_njit
def _find_last(p: PlacedProblem, s: PlacementState, t: int) -> None:
    last, count = -1, 0
    readers = p.demands.tensors.readers
    for e in range(readers.ptr[t], readers.ptr[t + 1]):
        c = int(s.chip[readers.entries[e]])
        if c > last:
            last, count = c, 1
        elif c == last:
            count += 1
    s.last[t], s.at_last[t] = last, count


@inlined_njit
def _count_tensor(p: PlacedProblem, s: PlacementState, t: int, source: int, sign: int) -> None:
    """Counts what a tensor takes on its way from a chip to its last reader, or takes it off."""
    tensors, last = p.demands.tensors, int(s.last[t])
    if last <= source and not tensors.kind[t] & TO_HOST:
        s.totals[LOCAL, source] += sign * tensors.amount[t, LIVE]
        s.totals[ARRIVED, source] += max(sign, 0) * tensors.amount[t, LIVE]
        return
    copied_s = _copy_seconds(p, s, t, source)
    if copied_s > 0.0:
        writer = tensors.writer[t]
        if writer < 0 or s.chip[writer] != source:
            s.busy_s[source] += sign * copied_s
    if p.network.used:
        network, held = p.network, s.totals[HELD]
        where = Places(
            s.chip, s.device, s.chip_at, held, s.busy_s, network.kind_of, network.relay_s
        )
        count_on_channels(p.network, tensors, t, where, source, sign, s.channels)
        return
    way = Way(source, last, p.ring.last_chip)
    loads = Loads(s.busy_s, s.totals)
    if source == HOST or count_tensor_apart(tensors, t, way, sign, loads):
        s.counts[MARK] += 1
        marks = Marks(s.stamp, s.counts[MARK])
        count_received(tensors, t, tensors.readers, s.chip, way, sign, s.totals, marks)


@inlined_njit
def held_on_chip(s: PlacementState, c: int) -> int:
    """Blocks that a chip needs whatever comes and goes."""
    return int(s.totals[HELD, c] + s.totals[WEIGHT, c])


@lean_inner_njit
def find_peaks(
    p: PlacedProblem, s: PlacementState, room: LivePeaks, first: int, last: int, peak: Longs
) -> None:
    """Sets `peak[C]` to the blocks of what comes and goes on chips at its most, with its gaps.

    Live at once is what is made and read on one chip, in the order of the units.
    """
    room.live[:] = 0
    room.most[:] = 0
    made, tensors = p.demands.nodes.made, p.demands.tensors
    for u in range(s.chip.size):
        c = s.chip[u]
        if c < first or c > last:
            continue
        for e in range(made.ptr[u], made.ptr[u + 1]):
            t = made.entries[e]
            if not tensors.kind[t] & TO_HOST and s.last[t] <= c:
                hold(room, c, u, tensors.readers, t, tensors.amount[t, LIVE])
        end_unit(room, c, u)
    for c in range(first, last + 1):
        peak[c] = int(np.ceil(room.most[c] * p.ring.packing))


@inlined_njit
def weigh_memory(
    p: PlacedProblem,
    s: PlacementState,
    room: LivePeaks,
    c: int,
    looks: bool,
    peak: Longs,
    needed: Longs,
) -> int:
    """Sets what memory a chip needs.

    Args:
        p: the problem.
        s: the state.
        room: for counting.
        c: the chip.
        looks: whether the peak of what comes and goes may be found anew, which looks at all units,
            where the chip would overflow.
        peak: `[C]`, no fewer blocks than that; set where it is found anew.
        needed: `[C]`, in blocks; set for the chip.

    Returns:
        Blocks of weights that it streams: 0 where all fits, -1 where it overflows.
    """
    limit = peak[c]
    # All that comes and goes may be live at once, and is no more than that.
    most = int(np.ceil(s.totals[LOCAL, c] * p.ring.packing))
    room_of_chip = p.ring.room[s.device[c]]
    if looks and held_on_chip(s, c) + min(most, limit) > room_of_chip:
        find_peaks(p, s, room, c, c, peak)
        peak[c] = min(peak[c], limit)
    needed[c] = held_on_chip(s, c) + min(most, peak[c])
    if needed[c] <= room_of_chip:
        return 0
    return _streamed(p, s, c, int(needed[c]))


@inlined_njit
def _streamed(p: PlacedProblem, s: PlacementState, c: int, needed: int) -> int:
    """As `streamed_weights`, for a chip that needs so many blocks."""
    largest, items = 0, p.demands.nodes.items
    for k in range(s.size[c] if p.ring.streams else 0):
        u = s.members[c, k]
        for e in range(items.ptr[u], items.ptr[u + 1]):
            largest = max(largest, int(p.demands.items.weight[items.entries[e]]))
    weights, ring = int(s.totals[WEIGHT, c]), p.ring
    room = int(ring.room[s.device[c]])
    return streamed_weights(needed, weights, largest, room, ring.streams, ring.stream_slots)
