"""From which chip on each unit can sit, with units and weights that are not divided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.families.ring.solver.node_bits import has
from mcm_passes.mapping.bounds.work_around import sums_over
from mcm_passes.mapping.problem.rule_graph import Words

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
        joins: `[n]`, whether no single predecessor has all others before it, so that what comes
            before the node may need more than each of them says.
        pivots: `[P]`, nodes that much work comes before and after.
        heavy: `[H]`, the nodes with most work, ascending.
    """

    order: Ints
    before_ptr: Longs
    before_nodes: Ints
    before: Words
    after: Words
    joins: Bools
    pivots: Ints
    heavy: Ints


class Weights(NamedTuple):
    """What nodes hold in the memory of their chips.

    Attributes:
        ptr: `[n + 1]`, CSR of the weights of each node.
        weights: those weights.
        room: `[W]`, memory blocks of each.
    """

    ptr: Longs
    weights: Ints
    room: Longs


class _Released(NamedTuple):
    """What comes before one node, by the chip that it may go to at the earliest.

    Attributes:
        seconds: `[C]`, work as sand.
        pieces: `[S, C]`, how many pieces of each size.
    """

    seconds: Floats
    pieces: Floats


class _Seen(NamedTuple):
    """Which weights one node needs, itself or for what comes before it.

    Attributes:
        stamp: `[W]`, the last node that was found to need each weight.
        latest: `[W]`, for that node: the last chip that a user of the weight before it is known
            not to be before, or `OWN`.
        found: `[W]`, in its first entries the weights that are not `OWN`.
    """

    stamp: Longs
    latest: Longs
    found: Longs


OWN = -1
"""Instead of a chip: the node needs the weight itself."""


@lean_inner_njit
def _poured(
    released: Floats, unit: float, capacity: Floats, chip: int, held: float
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


def light_work(side: Side, work: Floats) -> Floats:
    """`[P + 1, n]`, seconds of all that is not heavy and comes before each node.

    Row 0 is of all that comes before; row j + 1 of what comes between pivot j and the node.
    """
    light = work[:, None].copy()
    light[side.heavy] = 0.0
    sets = (side.before, *(side.before & side.after[pivot] for pivot in side.pivots.tolist()))
    return np.concatenate([sums_over(each, light).T for each in sets])


@inlined_njit
def _later(chip: int, load: float, other: int, other_load: float) -> tuple[int, float]:
    """Of two statements on the lowest chip, and the work there, the one that says more."""
    if other > chip or (other == chip and other_load > load):
        return other, other_load
    return chip, load


@inner_njit
def _whole_pieces(heavy: Ints, work: Floats, sizes: Floats) -> Longs:
    """`[S, n]`, how many pieces of each size are in each heavy node; 0 for the others."""
    pieces = np.zeros((sizes.size, work.size), np.int64)
    for s in range(sizes.size):
        for v in heavy:
            pieces[s, v] = int(np.floor(work[v] / sizes[s] + SLACK))
    return pieces


@lean_inner_njit
def _release_heavy(
    released: _Released, side: Side, low: Ints, work: Floats, pieces: Longs, v: int, pivot: int
) -> None:
    """Adds the heavy nodes before v, each from its own lowest chip on.

    Args:
        released: what they are added to.
        side: the graph.
        low: `[n]`, the lowest chips of all before v.
        work: `[n]`, seconds.
        pieces: as of `_whole_pieces`.
        v: the node.
        pivot: a node that they are to come after, or -1 for all.
    """
    for u in side.heavy:
        if has(side.before[v], u) and (pivot < 0 or has(side.after[pivot], u)):
            released.seconds[low[u]] += work[u]
            for s in range(pieces.shape[0]):
                released.pieces[s, low[u]] += pieces[s, u]


@entry_njit
def lowest_by_work(
    side: Side,
    windows: ChipWindows,
    work: Floats,
    light: Floats,
    capacity: Floats,
    sizes: Floats,
) -> tuple[Ints, Floats]:
    """`[n]` each: the lowest chip of each node, and the work on it if the node is there.

    All that comes before a node is poured into the chips, each heavy piece not before the chip
    that it can be on itself: once as sand, and once for each of `sizes` as pieces of at least that
    size. That is done from the first chip on, and from each pivot on, where the pivot is at its
    lowest chip with its work there. A statement of a direct predecessor holds too. Statements are
    compared by chip and then by work.

    Args:
        side: the graph.
        windows: chips that the nodes are known to be between.
        work: `[n]`, seconds.
        light: `[P + 1, n]`, the `light_work` of it.
        capacity: `[C]`, seconds.
        sizes: `[S]`, seconds.

    Returns:
        Chips are C from the first node on that finds none in its window.
    """
    n, chips = work.size, capacity.size
    low = np.full(n, chips, np.int32)
    load = np.zeros(n)
    pieces = _whole_pieces(side.heavy, work, sizes)
    released = _Released(np.empty(chips), np.empty((sizes.size, chips)))
    for v in side.order:
        # What direct predecessors say, whose own work is not divided.
        chip, held = int(windows.low[v]), 0.0
        for u in side.before_nodes[side.before_ptr[v] : side.before_ptr[v + 1]]:
            chip, held = _later(chip, held, int(low[u]), float(load[u]))
        # What all that comes before says: from the first chip on, and from pivots on.
        for j in range(-1, side.pivots.size if side.joins[v] else -1):
            pivot = side.pivots[j] if j >= 0 else -1
            if pivot >= 0 and not has(side.before[v], pivot):
                continue
            first = low[pivot] if pivot >= 0 else 0
            there = load[pivot] if pivot >= 0 else 0.0
            released.seconds[:] = 0.0
            released.pieces[:] = 0.0
            released.seconds[first] = light[j + 1, v]
            _release_heavy(released, side, low, work, pieces, v, pivot)
            for c in range(chips):
                released.seconds[c] *= 1.0 - SLACK
            at, amount = _poured(released.seconds, 0.0, capacity, first, there)
            chip, held = _later(chip, held, at, amount)
            for s in range(sizes.size):
                at, amount = _poured(released.pieces[s], sizes[s], capacity, first, there)
                chip, held = _later(chip, held, at, amount)
        # Then the node itself, on one chip.
        while chip < chips and held + work[v] > capacity[chip] * (1.0 + SLACK):
            chip += 1
            held = 0.0
        if chip > windows.high[v]:
            return low, load
        low[v] = chip
        load[v] = held + work[v]
    return low, load


@inner_njit
def _with_weights(weights: Weights, words: int) -> Words:
    """`[words]`, bitset of the nodes that have weights."""
    bits = np.zeros(words, np.uint64)
    for v in range(weights.ptr.size - 1):
        if weights.ptr[v] < weights.ptr[v + 1]:
            bits[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    return bits


@lean_inner_njit
def _see_own(weights: Weights, seen: _Seen, v: int) -> int:
    """Notes the weights of a node itself; the blocks that they take."""
    blocks = 0
    for e in range(weights.ptr[v], weights.ptr[v + 1]):
        w = weights.weights[e]
        blocks += int(weights.room[w])
        seen.stamp[w] = v
        seen.latest[w] = OWN
    return blocks


@lean_inner_njit
def _see_before(weights: Weights, seen: _Seen, side: Side, low: Ints, having: Words, v: int) -> int:
    """Notes the weights of all that comes before a node, but for its own; how many they are.

    Args:
        weights: of the nodes.
        seen: what notes them.
        side: the graph.
        low: `[n]`, the lowest chips of all before v.
        having: as of `_with_weights`.
        v: the node, whose own weights are noted.
    """
    count = 0
    for k in range(having.size):
        word = side.before[v, k] & having[k]
        u = k << 6
        while word:
            if word & np.uint64(1):
                for e in range(weights.ptr[u], weights.ptr[u + 1]):
                    w = weights.weights[e]
                    if seen.stamp[w] != v:
                        seen.stamp[w] = v
                        seen.latest[w] = low[u]
                        seen.found[count] = w
                        count += 1
                    elif seen.latest[w] != OWN:
                        seen.latest[w] = max(seen.latest[w], low[u])
            word >>= np.uint64(1)
            u += 1
    return count


@lean_inner_njit
def _first_with_room(released: Longs, own: int, capacity: Longs, floor: int) -> int:
    """The first chip from `floor` on that has room for `own` blocks; C where none has.

    `released[c]` blocks are on chip c or later ones, and go as early as possible.
    """
    carry = 0
    for c in range(capacity.size):
        carry += released[c]
        if c >= floor and carry + own <= capacity[c]:
            return c
        carry = max(carry - capacity[c], 0)
    return capacity.size


@entry_njit
def lowest_by_memory(side: Side, windows: ChipWindows, weights: Weights, capacity: Longs) -> Ints:
    """`[n]`, the lowest chip of each node by the weights that it and all before it need.

    Each distinct weight is held at least once, not before the last chip that one of its users is
    known not to be before. What the node itself needs is held on its own chip.

    Args:
        side: the graph.
        windows: chips that the nodes are known to be between.
        weights: of the nodes.
        capacity: `[C]`, blocks.

    Returns:
        Chips are C from the first node on that finds none in its window.
    """
    n, chips = windows.low.size, capacity.size
    low = np.full(n, chips, np.int32)
    having = _with_weights(weights, side.before.shape[1])
    size = weights.room.size
    seen = _Seen(np.full(size, -1, np.int64), np.zeros(size, np.int64), np.empty(size, np.int64))
    released = np.empty(chips, np.int64)
    for v in side.order:
        # What direct predecessors say.
        chip = int(windows.low[v])
        for u in side.before_nodes[side.before_ptr[v] : side.before_ptr[v + 1]]:
            chip = max(chip, int(low[u]))
        # What the weights say; with none of its own, a predecessor after all others has said it.
        own = _see_own(weights, seen, v)
        count = 0
        if own > 0 or side.joins[v]:
            count = _see_before(weights, seen, side, low, having, v)
        released[:] = 0
        for i in range(count):
            w = seen.found[i]
            released[seen.latest[w]] += weights.room[w]
        chip = _first_with_room(released, own, capacity, chip)
        if chip > windows.high[v]:
            return low
        low[v] = chip
    return low
