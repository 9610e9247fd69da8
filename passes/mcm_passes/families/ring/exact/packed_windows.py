"""From which chip on each unit can sit, with units and weights that are not divided."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs
from mcm_passes.partitioning.rule_graph import Words

SLACK = 1e-9
"""Relative room for sums that the fast model adds in another order."""


class Side(NamedTuple):
    """A graph as it is seen from one end of the ring.

    Attributes:
        order: `[n]`, nodes, each after all that come before it from this end.
        before_ptr: `[n + 1]`, CSR of direct predecessors, by node.
        before_nodes: those predecessors.
        before: `[n, words]`, bitset of all that come before each node.
        after: `[n, words]`, bitset of all that come after each node.
        pivots: `[P]`, nodes that much work comes before and after.
        heavy: `[H]`, the nodes with most work, ascending.
    """

    order: Ints
    before_ptr: Longs
    before_nodes: Ints
    before: Words
    after: Words
    pivots: Ints
    heavy: Ints


@njit(cache=True, nogil=True)
def _holds(bits: Any, node: int) -> bool:
    return (bits[node >> 6] >> np.uint64(node & 63)) & np.uint64(1) != np.uint64(0)


@njit(cache=True, nogil=True)
def _poured(
    released: Any, unit: float, capacity: Floats, chip: int, held: float
) -> tuple[int, float]:
    """The last chip that work gets to, and how much of it is there at least.

    `released[c]` may go to chip c and later ones; what may go to chips before `chip` is poured in
    from `chip` on, where `held` seconds are taken already. With a `unit` above 0 it counts pieces
    of at least that many seconds, which are not divided. All goes as early as possible.
    """
    chips = capacity.size
    last, carry = chip, 0.0
    for c in range(chips):
        if released[c] > 0.0:
            last = max(last, c)
    for c in range(min(chip, chips)):
        carry += released[c]
    while chip < chips:
        carry += released[chip]
        room = max(capacity[chip] - held, 0.0)
        if unit > 0.0:
            room = np.floor(room / unit * (1.0 + SLACK) + SLACK)
        if chip >= last and carry <= room:
            return chip, held + carry * (unit if unit > 0.0 else 1.0)
        carry = max(carry - room, 0.0)
        held = 0.0
        chip += 1
    return chips, 0.0


@njit(cache=True, nogil=True)
def light_work(side: Side, work: Floats) -> Floats:
    """`[P + 1, n]`, seconds of all that is not heavy and comes before each node.

    Row 0 is of all that comes before; row j + 1 of what comes between pivot j and the node.
    """
    n = work.size
    light = work.copy()
    light[side.heavy] = 0.0
    total = np.zeros((side.pivots.size + 1, n))
    for v in range(n):
        for j in range(-1, side.pivots.size):
            if j >= 0 and not _holds(side.before[v], side.pivots[j]):
                continue
            for k in range(side.before.shape[1]):
                word = side.before[v, k]
                if j >= 0:
                    word &= side.after[side.pivots[j], k]
                u = k << 6
                while word:
                    if word & np.uint64(1):
                        total[j + 1, v] += light[u]
                    word >>= np.uint64(1)
                    u += 1
    return total


@njit(cache=True, nogil=True)
def lowest_by_work(
    side: Side, floor: Ints, work: Floats, light: Floats, capacity: Floats, sizes: Floats
) -> tuple[Ints, Floats]:
    """`[n]` each: the lowest chip of each node, and the work on it if the node is there.

    All that comes before a node is poured into the chips, each heavy piece not before the chip
    that it can be on itself: once as sand, and once for each of `sizes` as pieces of at least that
    size. That is done from the first chip on, and from each pivot on, where the pivot is at its
    lowest chip with its work there. A statement of a direct predecessor holds too. Statements are
    compared by chip and then by work.

    Args:
        side: the graph.
        floor: `[n]`, a chip that the node is known not to be before.
        work: `[n]`, seconds.
        light: the `light_work` of it.
        capacity: `[C]`, seconds.
        sizes: `[S]`, seconds.

    Returns:
        Chips are C from the first node on that finds none.
    """
    n, chips, kinds = work.size, capacity.size, sizes.size
    low = np.full(n, chips, np.int32)
    load = np.zeros(n)
    is_heavy = np.zeros(n, np.bool_)
    is_heavy[side.heavy] = True
    pieces = np.zeros((kinds, n), np.int64)
    for s in range(kinds):
        for v in side.heavy:
            pieces[s, v] = int(np.floor(work[v] / sizes[s] + SLACK))
    released = np.empty((kinds + 1, chips))
    for v in side.order:
        chip, held = floor[v], 0.0
        for e in range(side.before_ptr[v], side.before_ptr[v + 1]):
            u = side.before_nodes[e]
            if low[u] > chip or (low[u] == chip and load[u] > held):
                chip, held = low[u], load[u]
        joins = side.before_ptr[v + 1] - side.before_ptr[v] > 1
        for j in range(-1, side.pivots.size if is_heavy[v] or joins else -1):
            pivot = side.pivots[j] if j >= 0 else -1
            if pivot >= 0 and not _holds(side.before[v], pivot):
                continue
            first = low[pivot] if pivot >= 0 else 0
            there = load[pivot] if pivot >= 0 else 0.0
            released[:] = 0.0
            released[0, first] = light[j + 1, v]
            for u in side.heavy:
                if _holds(side.before[v], u) and (pivot < 0 or _holds(side.after[pivot], u)):
                    released[0, low[u]] += work[u]
                    for s in range(kinds):
                        released[s + 1, low[u]] += pieces[s, u]
            released[0] *= 1.0 - SLACK
            for s in range(kinds + 1):
                unit = sizes[s - 1] if s else 0.0
                at, amount = _poured(released[s], unit, capacity, first, there)
                if at > chip or (at == chip and amount > held):
                    chip, held = at, amount
        while chip < chips and held + work[v] > capacity[chip] * (1.0 + SLACK):
            chip += 1
            held = 0.0
        if chip >= chips:
            return low, load
        low[v] = chip
        load[v] = held + work[v]
    return low, load


@njit(cache=True, nogil=True)
def lowest_by_memory(
    side: Side, floor: Ints, weight_ptr: Longs, weights: Ints, room: Longs, capacity: Longs
) -> Ints:
    """`[n]`, the lowest chip of each node by the weights that it and all before it need.

    Each distinct weight is held at least once, not before the last chip that one of its users is
    known not to be before. What the node itself needs is held on its own chip.

    Args:
        side: the graph.
        floor: `[n]`, a chip that the node is known not to be before.
        weight_ptr: `[n + 1]`, CSR of the weights of each node.
        weights: those weights.
        room: `[W]`, memory blocks of each.
        capacity: `[C]`, blocks.

    Returns:
        Chips are C from the first node on that finds none.
    """
    n, chips = floor.size, capacity.size
    low = np.full(n, chips, np.int32)
    stamp = np.full(room.size, -1, np.int64)
    latest = np.zeros(room.size, np.int64)
    needs = np.zeros(side.before.shape[1], np.uint64)
    for v in range(n):
        if weight_ptr[v] < weight_ptr[v + 1]:
            needs[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    found = np.empty(room.size, np.int64)
    released = np.empty(chips, np.int64)
    for v in side.order:
        chip = floor[v]
        for e in range(side.before_ptr[v], side.before_ptr[v + 1]):
            chip = max(chip, low[side.before_nodes[e]])
        own = 0
        for e in range(weight_ptr[v], weight_ptr[v + 1]):
            own += room[weights[e]]
            stamp[weights[e]] = v
            latest[weights[e]] = -1
        count = 0
        if own > 0 or side.before_ptr[v + 1] - side.before_ptr[v] > 1:
            for k in range(needs.size):
                word = side.before[v, k] & needs[k]
                u = k << 6
                while word:
                    if word & np.uint64(1):
                        for e in range(weight_ptr[u], weight_ptr[u + 1]):
                            w = weights[e]
                            if stamp[w] != v:
                                stamp[w] = v
                                latest[w] = low[u]
                                found[count] = w
                                count += 1
                            elif latest[w] >= 0:
                                latest[w] = max(latest[w], low[u])
                    word >>= np.uint64(1)
                    u += 1
        released[:] = 0
        for i in range(count):
            released[latest[found[i]]] += room[found[i]]
        carry = 0
        for c in range(chips):
            carry += released[c]
            if c >= chip and carry + own <= capacity[c]:
                chip = c
                break
            if c >= chip:
                chip = c + 1
            carry = max(carry - capacity[c], 0)
        if chip >= chips:
            return low
        low[v] = chip
    return low
