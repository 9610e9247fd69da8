"""What a window costs: a chip takes over at one order ideal and hands over at a larger one."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Ints, Longs
from mcm_compiler.ring_routes import COLLECTED, FORWARDED, TO_HOST
from mcm_passes.families.ring.exact.chip_demands import ChipDemands
from mcm_passes.partitioning.order_ideals import OrderIdeals
from mcm_passes.partitioning.rule_graph import Words

TriangleReading = Literal["none", "adjacent", "between"]
"""How a window judges long dependencies by itself. `none`: it does not. `adjacent`: what arrives
must be read here for the last time, so that every dependency spans at most one chip, which is
more than the triangle rule asks. `between`: no unit of the window lies on a path that runs beside
a dependency which passes the window, which is less than the triangle rule asks."""


class Cuts(NamedTuple):
    """What crosses each of I ideals.

    Attributes:
        members: `[I, words]`, bitset of each ideal.
        read_by: `[T, words]`, bitset of the readers of each tensor.
        crossing_ptr: `[I + 1]`, CSR of the tensors that cross: made within, needed beyond.
        crossing: those tensors.
        crossing_bytes: `[I]`.
    """

    members: Words
    read_by: Words
    crossing_ptr: Longs
    crossing: Ints
    crossing_bytes: Longs


class PackingRatio(NamedTuple):
    """Memory for activations per peak of live bytes, as an exact fraction."""

    numerator: int
    denominator: int


def cuts_of(ideals: OrderIdeals, demands: ChipDemands) -> Cuts:
    """What crosses each ideal."""
    words = ideals.members.shape[1]
    read_by = np.zeros((demands.producer.size, words), np.uint64)
    rows = np.repeat(np.arange(demands.producer.size), np.diff(demands.reader_ptr))
    bits = np.uint64(1) << (demands.readers & 63).astype(np.uint64)
    np.bitwise_or.at(read_by, (rows, demands.readers >> 6), bits)
    ptr, crossing = _crossing(ideals.members, read_by, demands)
    ideal = np.repeat(np.arange(ideals.count), np.diff(ptr))
    return Cuts(
        members=ideals.members,
        read_by=read_by,
        crossing_ptr=ptr,
        crossing=crossing,
        crossing_bytes=_sums(demands.tensor_bytes[crossing], ideal, ideals.count),
    )


def _sums(values: Longs, group: Longs, size: int) -> Longs:
    total = np.zeros(size, np.int64)
    np.add.at(total, group, values)
    return total


@njit(cache=True)
def _holds(bits: Words, row: int, node: int) -> bool:
    return bool(bits[row, node >> 6] >> np.uint64(node & 63) & np.uint64(1))


@njit(cache=True)
def _read_beyond(members: Words, ideal: int, read_by: Words, tensor: int) -> bool:
    beyond = np.uint64(0)
    for k in range(members.shape[1]):
        beyond |= read_by[tensor, k] & ~members[ideal, k]
    return beyond != 0


@njit(cache=True)
def _crossing(members: Words, read_by: Words, d: ChipDemands) -> tuple[Longs, Ints]:
    count = members.shape[0]
    ptr = np.zeros(count + 1, np.int64)
    tensors = np.empty(1024, np.int32)
    found = 0
    # The empty ideal is where the package begins and the full one where it ends: no link.
    for i in range(1, count - 1):
        ptr[i] = found
        for t in range(d.producer.size):
            made = d.producer[t] < 0 or _holds(members, i, d.producer[t])
            if made and (d.kind[t] & COLLECTED or _read_beyond(members, i, read_by, t)):
                if found == tensors.size:
                    # In a loop, as slices of arrays take seconds to compile.
                    grown = np.empty(2 * found, np.int32)
                    for k in range(found):
                        grown[k] = tensors[k]
                    tensors = grown
                tensors[found] = t
                found += 1
    ptr[max(count - 1, 0) :] = found
    return ptr, tensors[:found].copy()


@njit(cache=True)
def _stays(members: Words, i: int, j: int, d: ChipDemands, tensor: int) -> bool:
    """Whether all that a tensor needs beside it is in the window from ideal i to ideal j."""
    for e in range(d.stay_ptr[tensor], d.stay_ptr[tensor + 1]):
        node = int(d.stay[e])
        if not _holds(members, j, node) or _holds(members, i, node):
            return False
    return True


class WindowCost(NamedTuple):
    """What one window asks of a chip.

    Attributes:
        seconds: units and clones at speed 1; larger windows need no less.
        relay_s: seconds of relays, likewise.
        in_bytes: host channel bytes that arrive.
        out_bytes: host channel bytes that leave.
        room: blocks of memory, activations at their peak and weights included.
        weight_room: the part of it that weights take; larger windows need no less.
        largest_weight: blocks of the largest weight.
    """

    seconds: float
    relay_s: float
    in_bytes: int
    out_bytes: int
    room: int
    weight_room: int
    largest_weight: int


@njit(cache=True)
def window_cost(
    d: ChipDemands,
    cuts: Cuts,
    i: int,
    j: int,
    inside: Words,
    stamp: Longs,
    mark: int,
    dying: Longs,
    packing: PackingRatio,
) -> WindowCost:
    """What the window from ideal i to ideal j costs, whose nodes are `inside`.

    `stamp[I]` holds no `mark` yet; `dying[n]` is 0 before and after: what dies after a node, or
    at need what it holds.
    """
    seconds = 0.0
    in_bytes, out_bytes, room, weights, largest = 0, 0, 0, 0, 0
    live, peak = 0, 0
    for k in range(inside.size):
        if not inside[k]:
            continue
        for v in range(k << 6, min((k + 1) << 6, d.work_s.size)):
            if not inside[k] >> np.uint64(v & 63) & np.uint64(1):
                continue
            seconds += d.work_s[v]
            out_bytes += d.out_bytes[v]
            room += d.out_room[v]
            for e in range(d.item_ptr[v], d.item_ptr[v + 1]):
                item = d.items[e]
                if stamp[item] != mark:
                    stamp[item] = mark
                    seconds += d.item_s[item]
                    room += d.item_room[item]
                    weights += d.item_weight[item]
                    largest = max(largest, d.item_weight[item])
                    in_bytes += d.item_in_bytes[item]
            for e in range(d.made_ptr[v], d.made_ptr[v + 1]):
                t = d.made[e]
                if _read_beyond(cuts.members, j, cuts.read_by, t):
                    if not d.kind[t] & FORWARDED:
                        room += d.sent[t]
                    continue
                if d.need:
                    if d.live[t] and _stays(cuts.members, i, j, d, t):
                        for h in range(d.held_ptr[t], d.held_ptr[t + 1]):
                            dying[d.held[h]] += d.live[t]
                    continue
                if d.kind[t] & TO_HOST:
                    continue
                live += d.live[t]
                last = v
                if d.reader_ptr[t] < d.reader_ptr[t + 1]:
                    last = d.readers[d.reader_ptr[t + 1] - 1]
                dying[last] += d.live[t]
            if d.need:
                # All that holds something here was made before or is made by this very node.
                peak = max(peak, dying[v])
            else:
                peak = max(peak, live)
                live -= dying[v]
            dying[v] = 0
    relay_s = 0.0
    for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
        t = cuts.crossing[e]
        if d.kind[t] & FORWARDED:
            room += d.received[t]
            if d.kind[t] & COLLECTED or _read_beyond(cuts.members, j, cuts.read_by, t):
                relay_s += d.passed_s[t]
        else:
            for k in range(inside.size):
                if cuts.read_by[t, k] & inside[k]:
                    room += d.received[t]
                    break
    for e in range(cuts.crossing_ptr[j], cuts.crossing_ptr[j + 1]):
        t = cuts.crossing[e]
        if d.kind[t] & FORWARDED:
            made_here = d.producer[t] >= 0 and not _holds(cuts.members, i, int(d.producer[t]))
            room += d.sent[t] if made_here else d.passed[t]
        if i == 0 and d.producer[t] < 0:
            relay_s += d.passed_s[t]
    room += -(-peak * packing.numerator // packing.denominator)
    # The casts are for the type checker; compiled code has them as they are.
    return WindowCost(
        seconds,
        float(relay_s),
        int(in_bytes),
        int(out_bytes),
        int(room),
        int(weights),
        int(largest),
    )


@njit(cache=True)
def arrivals_end(cuts: Cuts, d: ChipDemands, i: int, j: int) -> bool:
    """The reading `adjacent`."""
    for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
        t = cuts.crossing[e]
        if d.producer[t] >= 0 and _read_beyond(cuts.members, j, cuts.read_by, t):
            return False
    return True


@njit(cache=True)
def beside_no_dependency(
    cuts: Cuts,
    d: ChipDemands,
    i: int,
    j: int,
    inside: Words,
    ancestors: Words,
    descendants: Words,
) -> bool:
    """The reading `between`."""
    for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
        t = cuts.crossing[e]
        u = d.producer[t]
        if u < 0:
            continue
        for r in range(d.reader_ptr[t], d.reader_ptr[t + 1]):
            v = d.readers[r]
            if _holds(cuts.members, j, v):
                continue
            for k in range(inside.size):
                if inside[k] & descendants[u, k] & ancestors[v, k]:
                    return False
    return True
