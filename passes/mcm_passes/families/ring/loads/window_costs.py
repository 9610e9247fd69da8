"""Costs of windows: a chip takes over at one order ideal and hands over at a larger one.

For windows between any two ideals, and for those along an order, whose ideals are its beginnings.
An ideal is a set of nodes that holds with each all that it depends on. Tensors that one chip hands
over to the next cross it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit, lean_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_compiler.placements.ring_rules import FORWARDED, TO_HOST
from mcm_passes.mapping.loads.chip_demands import (
    CROSSED,
    LIVE,
    PASSED,
    RECEIVED,
    SENT,
    ChipDemands,
    TensorDemands,
)
from mcm_passes.mapping.loads.device_memory import LivePeaks, end_unit, hold, live_peaks
from mcm_passes.mapping.problem.rule_graph import Words


class IdealCrossings(NamedTuple):
    """Tensors that cross each of I ideals.

    Attributes:
        members: `[I, words]`, bitset of each ideal.
        crossing_ptr: `[I + 1]`, CSR of the tensors that cross: made within, needed beyond.
        crossing: those tensors.
        crossing_bytes: `[I]`.
    """

    members: Words
    crossing_ptr: Longs
    crossing: Ints
    crossing_bytes: Longs


def cuts_of(members: Words, tensors: TensorDemands, smaller: Longs | None = None) -> IdealCrossings:
    """Tensors that cross each ideal, from the empty one to that of all nodes.

    Takes about as long as there are crossings, whatever tensors do not cross.

    Args:
        members: `[I, words]`, bitsets of their nodes.
        tensors: of these nodes.
        smaller: `[I]`, of each ideal but the first one that stands before it, and all of whose
            nodes it has; None where that is the very one before it.
    """
    if smaller is None:
        smaller = np.arange(-1, len(members) - 1)
    maker = tensors.producer.astype(np.int64)
    made = Rows(np.arange(maker.size + 1), maker).transposed(64 * members.shape[1])
    crossing = Rows(*_crossing(members, smaller, made, tensors))
    crossing_bytes = np.zeros(len(members), np.int64)
    np.add.at(crossing_bytes, crossing.owners, tensors.amount[crossing.entries, CROSSED])
    return IdealCrossings(members, crossing.ptr, crossing.entries.astype(np.int32), crossing_bytes)


@inlined_njit
def holds(members: Words, ideal: int, node: int) -> bool:
    """Return whether an ideal has a node."""
    return bool(members[ideal, node >> 6] >> np.uint64(node & 63) & np.uint64(1))


@inlined_njit
def read_beyond(members: Words, ideal: int, readers: Rows, tensor: int) -> bool:
    """Return whether a tensor has a reader that an ideal lacks."""
    for e in range(readers.ptr[tensor], readers.ptr[tensor + 1]):
        if not holds(members, ideal, readers.entries[e]):
            return True
    return False


@entry_njit
def _crossing(members: Words, smaller: Longs, made: Rows, d: TensorDemands) -> tuple[Longs, Longs]:
    """CSR of the tensors that cross each ideal, ascending.

    What crosses an ideal has crossed the smaller one, or is made by one of the nodes between.
    """
    count, words = members.shape
    ptr = np.zeros(count + 1, np.int64)
    tensors = np.empty(1024, np.int64)
    end = 0
    # The empty ideal is where the package begins and the full one where it ends: no link.
    for i in range(1, count - 1):
        ptr[i] = end
        before = smaller[i]
        most = end + ptr[before + 1] - ptr[before] + d.producer.size
        if most > tensors.size:
            # In a loop, as slices of arrays take seconds to compile.
            grown = np.empty(2 * most, np.int64)
            for k in range(end):
                grown[k] = tensors[k]
            tensors = grown
        for e in range(ptr[before], ptr[before + 1]):
            if read_beyond(members, i, d.readers, tensors[e]):
                tensors[end] = tensors[e]
                end += 1
        for w in range(words):
            new = members[i, w] & ~members[before, w]
            v = 64 * w
            while new:
                if new & np.uint64(1):
                    end = _enter_made(members, i, made, v, d, tensors, ptr[i], end)
                new >>= np.uint64(1)
                v += 1
    ptr[max(count - 1, 0) :] = end
    return ptr, tensors[:end].copy()


@lean_inner_njit
def _enter_made(
    members: Words,
    ideal: int,
    made: Rows,
    node: int,
    d: TensorDemands,
    tensors: Longs,
    begin: int,
    end: int,
) -> int:
    """Enters what a node makes and what crosses the ideal into its ascending row; the new end."""
    for e in range(made.ptr[node], made.ptr[node + 1]):
        t = made.entries[e]
        if read_beyond(members, ideal, d.readers, t):
            k = end
            while k > begin and tensors[k - 1] > t:
                tensors[k] = tensors[k - 1]
                k -= 1
            tensors[k] = t
            end += 1
    return end


class Window(NamedTuple):
    """Units that one chip holds.

    Attributes:
        start: the ideal at which it takes over.
        end: the larger ideal at which it hands over.
        inside: `[words]`, bitset of the nodes that are in the one and not in the other.
    """

    start: int
    end: int
    inside: Words


class PackingRatio(NamedTuple):
    """Memory for activations per peak of live bytes, as an exact fraction."""

    numerator: int
    denominator: int


class WindowCost(NamedTuple):
    """Demands of one window on its chip.

    Attributes:
        room: blocks of memory, activations at their peak and weights included.
        live: the part of it that activations take.
        seconds: units and clones at speed 1; larger windows need no less.
        relay_s: seconds of relays and of copies of views, likewise at speed 1.
        in_bytes: host channel bytes that arrive.
        out_bytes: host channel bytes that leave.
        link_bytes: on the link to the next chip.
        lasting: the part of `room` that items, outputs and what arrives take; larger windows need
            no less where nothing is forwarded.
        weight_room: the part of it that weights take; larger windows need no less.
        largest_weight: blocks of the largest weight.
    """

    room: int
    live: int
    seconds: float
    relay_s: float
    in_bytes: int
    out_bytes: int
    link_bytes: int
    lasting: int
    weight_room: int
    largest_weight: int


class WindowScratch(NamedTuple):
    """Scratch space for weighing one window after the other.

    Attributes:
        nodes: `[n]`, its nodes, in its first entries.
        stamp: `[I]`, the last window that counted each item; below 1 at first.
        peaks: of one chip; at need `ends_at` is what each node holds.
    """

    nodes: Ints
    stamp: Longs
    peaks: LivePeaks


@entry_njit
def window_scratch(d: ChipDemands) -> WindowScratch:
    """For windows of these demands."""
    n, items = d.nodes.work_s.size, d.items.busy_s.size
    return WindowScratch(
        nodes=np.empty(n, np.int32), stamp=np.full(items, -1, np.int64), peaks=live_peaks(n, 1)
    )


@inlined_njit
def list_nodes(inside: Words, nodes: Ints) -> int:
    """Writes the nodes of a bitset into `nodes`, ascending; how many they are."""
    count = 0
    for k in range(inside.size):
        word = inside[k]
        v = k << 6
        while word:
            if word & np.uint64(1):
                nodes[count] = v
                count += 1
            word >>= np.uint64(1)
            v += 1
    return count


@inlined_njit
def _live_peak(
    d: ChipDemands, cuts: IdealCrossings, window: Window, nodes: Ints, peaks: LivePeaks
) -> int:
    """The most blocks that are live at once of what is made and read in the window.

    Nodes run in their order; a tensor is live from its maker to its last reader.
    """
    tensors = d.tensors
    peaks.most[0] = 0
    for v in nodes:
        for e in range(d.nodes.made.ptr[v], d.nodes.made.ptr[v + 1]):
            t = d.nodes.made.entries[e]
            leaves = read_beyond(cuts.members, window.end, tensors.readers, t)
            if not (leaves or tensors.kind[t] & TO_HOST):
                hold(peaks, 0, v, tensors.readers, t, tensors.amount[t, LIVE])
        end_unit(peaks, 0, v)
    return int(peaks.most[0])


@inlined_njit
def _held_peak(
    d: ChipDemands, cuts: IdealCrossings, window: Window, nodes: Ints, held: Longs
) -> int:
    """The most blocks that one node holds of what stays in the window, in any order of nodes."""
    peak = 0
    for v in nodes:
        for e in range(d.nodes.made.ptr[v], d.nodes.made.ptr[v + 1]):
            t = d.nodes.made.entries[e]
            live = d.tensors.amount[t, LIVE]
            if live and _stays(d, cuts, window, t):
                for h in range(d.held.by.ptr[t], d.held.by.ptr[t + 1]):
                    held[d.held.by.entries[h]] += live
        # All that holds something here was made before or is made by this very node.
        peak = max(peak, int(held[v]))
        held[v] = 0
    return peak


@inlined_njit
def _stays(d: ChipDemands, cuts: IdealCrossings, window: Window, tensor: int) -> bool:
    """Return whether all that a tensor needs near it, all its readers too, is in the window."""
    for e in range(d.held.beside.ptr[tensor], d.held.beside.ptr[tensor + 1]):
        node = int(d.held.beside.entries[e])
        if not holds(cuts.members, window.end, node) or holds(cuts.members, window.start, node):
            return False
    return True


@inlined_njit
def _is_read(tensors: TensorDemands, cuts: IdealCrossings, window: Window, t: int) -> bool:
    """Return whether a node of the window reads a tensor."""
    for e in range(tensors.readers.ptr[t], tensors.readers.ptr[t + 1]):
        node = int(tensors.readers.entries[e])
        if holds(cuts.members, window.end, node) and not holds(cuts.members, window.start, node):
            return True
    return False


@inlined_njit
def _count_ways(
    d: ChipDemands, cuts: IdealCrossings, window: Window
) -> tuple[int, int, int, float]:
    """Counts the tensors that arrive at the window, pass it or leave it.

    Returns:
        Blocks of what arrives, and of all; bytes on the link to the next chip; seconds of relays
        and copies.
    """
    tensors, amount = d.tensors, d.tensors.amount
    held, link_bytes, busy_s = 0, 0, 0.0
    for e in range(cuts.crossing_ptr[window.start], cuts.crossing_ptr[window.start + 1]):
        t = cuts.crossing[e]
        passes = read_beyond(cuts.members, window.end, tensors.readers, t)
        if passes:
            link_bytes += amount[t, CROSSED]
        if tensors.kind[t] & FORWARDED:
            held += amount[t, RECEIVED]
            if passes:
                held += amount[t, PASSED]
                busy_s += tensors.passed_s[t]
        elif _is_read(tensors, cuts, window, t):
            held += amount[t, RECEIVED]
    arrived = held
    for e in range(cuts.crossing_ptr[window.end], cuts.crossing_ptr[window.end + 1]):
        t = cuts.crossing[e]
        # What is made before is counted already.
        if not holds(cuts.members, window.start, int(tensors.producer[t])):
            link_bytes += amount[t, CROSSED]
            held += amount[t, SENT]
            busy_s += _copied_s(tensors, cuts, window, t)
    return arrived, held, link_bytes, float(busy_s)


@inlined_njit
def _copied_s(tensors: TensorDemands, cuts: IdealCrossings, window: Window, t: int) -> float:
    """Seconds of the copy of a tensor that the window makes and that leaves it."""
    copied_s, writer = tensors.copied_s[t], int(tensors.writer[t])
    here = copied_s > 0.0 and writer >= 0 and not holds(cuts.members, window.start, writer)
    return 0.0 if here else copied_s


@inlined_njit
def _exit_copies_s(d: ChipDemands, cuts: IdealCrossings, window: Window, v: int) -> float:
    """Seconds of the copies of views that a node makes for the host and for no later chip."""
    copied_s = 0.0
    for e in range(d.nodes.made.ptr[v], d.nodes.made.ptr[v + 1]):
        t = d.nodes.made.entries[e]
        alone = d.tensors.copied_s[t] > 0.0 and d.tensors.kind[t] & TO_HOST
        if alone and not read_beyond(cuts.members, window.end, d.tensors.readers, t):
            copied_s += _copied_s(d.tensors, cuts, window, t)
    return copied_s


@lean_njit
def window_cost(
    d: ChipDemands,
    cuts: IdealCrossings,
    window: Window,
    scratch: WindowScratch,
    mark: int,
    packing: PackingRatio,
) -> WindowCost:
    """The cost of a window: `window_loads` and `with_activations`."""
    loads = window_loads(d, cuts, window, scratch, mark)
    return with_activations(d, cuts, window, scratch, packing, loads)


@lean_njit
def window_loads(
    d: ChipDemands, cuts: IdealCrossings, window: Window, scratch: WindowScratch, mark: int
) -> WindowCost:
    """The cost of a window without memory for what stays in it.

    Args:
        d: the demands of n nodes, I items and T tensors.
        cuts: what crosses the ideals.
        window: between two of them.
        scratch: for these demands.
        mark: another one for each window, at least 1.
    """
    # Units, and once for all of them what they share.
    seconds = 0.0
    in_bytes, out_bytes, room, weight_room, largest = 0, 0, 0, 0, 0
    for v in scratch.nodes[: list_nodes(window.inside, scratch.nodes)]:
        seconds += d.nodes.work_s[v]
        out_bytes += d.nodes.out_bytes[v]
        room += d.nodes.out_room[v]
        for e in range(d.nodes.items.ptr[v], d.nodes.items.ptr[v + 1]):
            item = d.nodes.items.entries[e]
            if scratch.stamp[item] != mark:
                scratch.stamp[item] = mark
                seconds += d.items.busy_s[item]
                in_bytes += d.items.in_bytes[item]
                room += d.items.held[item] + d.items.weight[item]
                weight_room += d.items.weight[item]
                largest = max(largest, d.items.weight[item])
    # Tensors that arrive or leave.
    arrived, held, link_bytes, relay_s = _count_ways(d, cuts, window)
    for v in scratch.nodes[: list_nodes(window.inside, scratch.nodes) if d.copies else 0]:
        relay_s += _exit_copies_s(d, cuts, window, v)
    # The casts are for the type checker; compiled code has them as they are.
    return WindowCost(
        room=int(room + held),
        live=0,
        seconds=float(seconds),
        relay_s=float(relay_s),
        in_bytes=int(in_bytes),
        out_bytes=int(out_bytes),
        link_bytes=int(link_bytes),
        lasting=int(room + arrived),
        weight_room=int(weight_room),
        largest_weight=int(largest),
    )


@lean_njit
def with_activations(
    d: ChipDemands,
    cuts: IdealCrossings,
    window: Window,
    scratch: WindowScratch,
    packing: PackingRatio,
    loads: WindowCost,
) -> WindowCost:
    """The cost of a window, from `window_loads` of it.

    Args:
        d: the demands.
        cuts: what crosses the ideals.
        window: between two of them.
        scratch: as `window_loads` left it.
        packing: memory for activations per peak of live bytes.
        loads: of the window.
    """
    nodes = scratch.nodes[: list_nodes(window.inside, scratch.nodes)]
    if d.held.need:
        peak = _held_peak(d, cuts, window, nodes, scratch.peaks.ends_at)
    else:
        peak = _live_peak(d, cuts, window, nodes, scratch.peaks)
    live = int(-(-peak * packing.numerator // packing.denominator))
    return WindowCost(loads.room + live, live, *loads[2:])
