"""An independent check of `packed_windows`: chips are bins, filled from both ends.

Shares no code with the search. Ancestors are rows of one matrix. Where work gets to that is poured
into the chips follows in closed form from sums along them (Lindley 1952, *The theory of queues with
a single server*). The work left over after a chip is its running sum less the least of the sums so
far. Every node that counts is released at its own chip.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Rows, rows_of
from mcm_compiler.contracts.partition import Bools, Floats, Longs, PartitionProblem
from mcm_passes.mapping.bound_checks.plain_need import plain_weights
from mcm_passes.mapping.bound_checks.window_check import closure_of

MOST_UNITS = 6_000
"""Units up to which all ancestors are collected: N^2 bytes."""

HEAVY_SHARE = 0.02
"""Share of the average chip's work from which on a unit is not part of the sand."""

RUN_SHARE = 0.01
"""Share of all work from which on the users of a weight are looked at."""

PIVOTS = 8
"""Units between which chips are filled again."""

SIZES = 6
"""Sizes of pieces that are counted."""

ROUNDS = 16
"""Times that windows are narrowed at most."""

ROOM = 1e-9
"""Relative space for sums taken in another order."""


class _Gap(NamedTuple):
    """A run whose gaps are counted with its users, in seconds, and the blocks of its weights."""

    users: Longs
    seconds: float
    blocks: int


class _Side(NamedTuple):
    """A graph from one end of the ring: `above[v, u]` where u comes before v."""

    order: list[int]
    leads: list[list[int]]
    above: Bools


def units_do_not_pack_in_order(problem: PartitionProblem, period_s: float) -> bool:
    """Return whether some unit has no chip left within a period.

    From each end each unit gets the first chip that it can be on, and what is on that chip then. It
    is after those that it reads from, and after all that comes before it is poured in. Work is
    poured in as sand and as pieces of one size that are not divided, from the end on and from a
    pivot on. Likewise by the memory of distinct weights. Windows that shrink release work later, so
    that all this is done until nothing changes.
    """
    fixed = np.flatnonzero(~problem.clonable)
    if not 0 < fixed.size <= MOST_UNITS:
        return False
    start, end = _sides(problem)
    own = np.array(problem.compute_s[fixed], np.float64)
    weights, blocks = _weights(problem, fixed)
    speed = np.array(problem.chip_speed, np.float64)
    chips = problem.num_chips
    sram = None
    if not problem.streams:
        block = problem.limits.buffer_alignment_bytes
        sram = np.array(problem.limits.sram_bytes, np.int64) // block
    counted, gaps = _with_gaps(own, start.above, weights, blocks)
    pins = np.asarray(problem.pinned_chip)[fixed].astype(np.int64)
    low, high = np.maximum(pins, 0), np.where(pins < 0, chips - 1, pins)
    for _ in range(ROUNDS):
        before = low.copy(), high.copy()
        for work, runs in ((own, []), (counted, gaps))[: 2 if gaps else 1]:
            capacity = speed * (period_s * (1.0 + ROOM))
            capacity += _most_excess(runs, low, high, sram, chips)
            forward, load = _by_work(start, low, work, capacity)
            if (forward >= chips).any():
                return True
            backward, other = _by_work(end, chips - 1 - high, work, capacity[::-1])
            if (backward >= chips).any():
                return True
            low, high = forward, chips - 1 - backward
            full = load + other - work > capacity[low] * (1.0 + ROOM)
            if (low > high).any() or (full & (low == high)).any():
                return True
        if sram is not None:
            low = _by_memory(start, low, weights, blocks, sram)
            high = chips - 1 - _by_memory(end, chips - 1 - high, weights, blocks, sram[::-1])
            if (low > high).any():
                return True
        if np.array_equal(low, before[0]) and np.array_equal(high, before[1]):
            return False
    return False


def _sides(problem: PartitionProblem) -> tuple[_Side, _Side]:
    fixed, above, edges = closure_of(problem)
    along = list(range(fixed.size))
    leads: list[list[int]] = [[] for _ in along]
    follows: list[list[int]] = [[] for _ in along]
    for u, v in edges:
        leads[v].append(u)
        follows[u].append(v)
    return _Side(along, leads, above), _Side(along[::-1], follows, np.ascontiguousarray(above.T))


def _weights(problem: PartitionProblem, fixed: Longs) -> tuple[Rows, Longs]:
    """Rows of the units that use each weight, and its blocks of memory."""
    number = dict(zip(fixed.tolist(), range(fixed.size), strict=True))
    users: list[list[int]] = []
    blocks: list[int] = []
    for weight in plain_weights(problem):
        if kept := [number[u] for u in weight.users if u in number]:
            users.append(kept)
            blocks.append(weight.room // problem.limits.buffer_alignment_bytes)
    return rows_of(users), np.array(blocks, np.int64)


def _with_gaps(
    own: Floats, above: Bools, weights: Rows, blocks: Longs
) -> tuple[Floats, list[_Gap]]:
    """Work, where a part of what is between users of a weight is counted with the earlier one.

    Users of one weight that a chip runs follow each other along a path, and so it also runs all
    that is between the first and the last of them. Of k users it counts k gaps, and at least k - 1
    less of what is between.
    """
    blocks_of: dict[tuple[int, ...], int] = {}
    for weight, held in enumerate(blocks.tolist()):
        users = tuple(sorted(weights.row(weight).tolist()))
        if len(users) > 1:
            blocks_of[users] = blocks_of.get(users, 0) + held
    in_none = np.ones(own.size, np.bool_)
    for users in blocks_of:
        in_none[list(users)] = False
    work_of = {users: float(own[list(users)].sum()) for users in blocks_of}
    between: dict[tuple[int, ...], list[Longs]] = {}
    for users in sorted(blocks_of, key=lambda users: -work_of[users]):
        steps = list(pairwise(users))
        if work_of[users] >= RUN_SHARE * own.sum() and all(above[v, u] for u, v in steps):
            between[users] = [np.flatnonzero(above[:, u] & above[v] & in_none) for u, v in steps]
    narrowest = {users: min(own[i].sum() for i in inside) for users, inside in between.items()}
    # The gap of most of the work; wider ones would make chips look roomier.
    half = 0.5 * sum(work_of[users] for users in between)
    usual = 0.0
    for users in sorted(between, key=lambda users: narrowest[users]):
        usual = float(narrowest[users])
        half -= work_of[users]
        if half <= 0.0:
            break
    counted = own.copy()
    gaps: list[_Gap] = []
    for users, inside in between.items():
        gap = min(usual, *(float(counted[i].sum()) for i in inside))
        if gap > 0.0:
            for i in inside:
                counted[i] *= 1.0 - gap / counted[i].sum()
            gaps.append(_Gap(np.array(users), gap, blocks_of[users]))
            counted[gaps[-1].users] += gap
    return counted, gaps


def _most_excess(
    gaps: list[_Gap], low: Longs, high: Longs, sram: Longs | None, chips: int
) -> Floats:
    """`[C]`, seconds that are counted too much on a chip: a gap of each run that fits there."""
    excess = np.zeros(chips)
    for chip in range(chips):
        near = [gap for gap in gaps if low[gap.users].min() <= chip <= high[gap.users].max()]
        largest = sorted((gap.seconds for gap in near), reverse=True)
        if sram is not None:
            taken = np.cumsum(sorted(gap.blocks for gap in near))
            largest = largest[: int((taken <= sram[chip]).sum())]
        excess[chip] = sum(largest)
    return excess


def _by_work(side: _Side, floor: Longs, work: Floats, capacity: Floats) -> tuple[Longs, Floats]:
    """The first chip of each unit, and the work on it if the unit is there."""
    chips = capacity.size
    heavy = np.flatnonzero(work >= HEAVY_SHARE * work.sum() / chips)
    sizes = _sizes(work[heavy])
    # Column 0 is sand; in the others a unit counts as whole pieces of a size.
    amounts = np.floor(work[heavy, None] / np.concatenate([[np.inf], sizes]) + ROOM)
    amounts[:, 0] = work[heavy] * (1.0 - ROOM)
    pivots = _pivots(side, heavy, work)
    sand = work * (1.0 - ROOM)
    sand[heavy] = 0.0
    light = np.empty((work.size, pivots.size + 1))
    light[:, 0] = side.above @ sand
    for j, p in enumerate(pivots.tolist(), 1):
        light[:, j] = (side.above & side.above[:, p]) @ sand
    behind = np.ones((pivots.size + 1, heavy.size), np.bool_)
    behind[1:] = side.above[np.ix_(heavy, pivots)].T
    is_heavy = np.zeros(work.size, np.bool_)
    is_heavy[heavy] = True
    low, load = np.zeros(work.size, np.int64), np.zeros(work.size)
    for v in side.order:
        chip, held = int(floor[v]), 0.0
        for u in side.leads[v]:
            chip, held = max((chip, held), (int(low[u]), float(load[u])))
        # Of a light unit that reads from one other only, that one has said it all.
        if is_heavy[v] or len(side.leads[v]) > 1:
            of = np.flatnonzero(np.concatenate([[True], side.above[v, pivots]]))
            mine = np.flatnonzero(side.above[v, heavy])
            first = np.concatenate([[0], low[pivots]])[of]
            there = np.concatenate([[0.0], load[pivots]])[of]
            at = np.maximum(low[heavy[mine]], first[:, None])
            share = behind[np.ix_(of, mine)]
            released = np.zeros((of.size, amounts.shape[1], chips))
            for k in range(amounts.shape[1]):
                where = np.arange(of.size)[:, None] * chips + at
                released[:, k] = np.bincount(
                    where.ravel(), (share * amounts[mine, k]).ravel(), of.size * chips
                ).reshape(of.size, chips)
            released[np.arange(of.size), 0, first] += light[v, of]
            chip, held = max((chip, held), _poured(released, first, there, capacity, sizes))
        while chip < chips and held + work[v] > capacity[chip] * (1.0 + ROOM):
            chip, held = chip + 1, 0.0
        if chip == chips:
            # All that comes after it finds none either; one is enough.
            low[v] = chips
            return low, load
        low[v], load[v] = chip, held + work[v]
    return low, load


def _poured(
    released: Floats, first: Longs, there: Floats, capacity: Floats, sizes: Floats
) -> tuple[int, float]:
    """The best of all ways to pour: the last chip that work gets to, and what is on it at least.

    Args:
        released: `[W, 1 + S, C]`, sand in seconds and pieces of S sizes, that may go to each chip
            and later ones.
        first: `[W]`, the chip that is poured from.
        there: `[W]`, seconds that are on it already.
        capacity: `[C]`, seconds.
        sizes: `[S]`, seconds.
    """
    chips = capacity.size
    along = np.arange(chips)
    room = np.where(along >= first[:, None], capacity, 0.0)
    room[np.arange(first.size), first] -= there
    room = np.maximum(room, 0.0)
    rooms = np.repeat(room[:, None], released.shape[1], axis=1)
    rooms[:, 1:] = np.floor(room[:, None] / sizes[:, None] * (1.0 + ROOM) + ROOM)
    total = np.cumsum(released - rooms, axis=2)
    left = total - np.minimum(np.minimum.accumulate(total, axis=2), 0.0)
    # Differences of sums: what is left of nothing may be a rounding error.
    least = ROOM * capacity.max()
    left[left < least] = 0.0
    inflow = released.copy()
    inflow[..., 1:] += left[..., :-1]
    last = np.where(released > 0.0, along, 0).max(axis=2)
    done = (left == 0.0) & (along >= np.maximum(last, first[:, None])[..., None])
    chip = np.where(done.any(axis=2), done.argmax(axis=2), chips)
    at = np.minimum(chip, chips - 1)[..., None]
    amount = np.take_along_axis(inflow, at, axis=2)[..., 0] * np.concatenate([[1.0], sizes])
    amount += np.where(chip == first[:, None], there[:, None], 0.0)
    best = int(chip.max())
    return best, max(float(amount[chip == best].max()) - least, 0.0) if best < chips else 0.0


def _sizes(work: Floats) -> Floats:
    """The sizes that most work is of, almost equal ones as the least of them."""
    groups: list[list[float]] = []
    last = 0.0
    for size in sorted(work[work > 0.0].tolist()):
        if size - last > 1e-3 * size:
            groups.append([])
        groups[-1].append(size)
        last = size
    groups.sort(key=lambda group: -sum(group))
    return np.array(sorted(group[0] for group in groups[:SIZES]))


def _pivots(side: _Side, heavy: Longs, work: Floats) -> Longs:
    """Units that nearly all heavy work comes before or after, apart from each other."""
    total = float(work[heavy].sum())
    if total <= 0.0:
        return np.empty(0, np.int64)
    before = side.above[:, heavy] @ work[heavy] / total
    known = before + work[heavy] @ side.above[heavy] / total
    chosen: list[int] = []
    for v in np.argsort(-np.minimum(known, 0.999), kind="stable").tolist():
        if len(chosen) == PIVOTS or known[v] < 0.9:
            break
        if 0.02 < before[v] < 0.98 and all(abs(before[v] - before[u]) > 0.05 for u in chosen):
            chosen.append(v)
    return np.array(chosen, np.int64)


def _by_memory(side: _Side, floor: Longs, weights: Rows, blocks: Longs, sram: Longs) -> Longs:
    """The first chip of each unit by the weights of all that comes before it, each held once."""
    chips, n = sram.size, floor.size
    low = np.zeros(n, np.int64)
    mine = weights.transposed(n)
    for v in side.order:
        chip = max([int(floor[v]), *(int(low[u]) for u in side.leads[v])])
        own = int(blocks[mine.row(v)].sum())
        if blocks.size and (own or len(side.leads[v]) > 1):
            # Not before the last chip that one of its users is not before; -1 where none is.
            known = np.where(side.above[v, weights.entries], low[weights.entries], -1)
            latest = np.maximum.reduceat(known, weights.ptr[:-1])
            latest[mine.row(v)] = -1
            used = latest >= 0
            amount = np.bincount(latest[used], blocks[used], chips).astype(np.int64)
            total = np.cumsum(amount[:chips] - sram)
            left = total - np.minimum(np.minimum.accumulate(total), 0)
            inflow = amount[:chips].copy()
            inflow[1:] += left[:-1]
            free = np.flatnonzero((inflow + own <= sram) & (np.arange(chips) >= chip))
            chip = int(free[0]) if free.size else chips
        low[v] = chip
        if chip == chips:
            return np.maximum(low, chips)
    return low
