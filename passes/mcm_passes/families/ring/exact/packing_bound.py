"""The packing bound: chips are bins, along the graph, with memory and shared weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import (
    Bools,
    Floats,
    Ints,
    Longs,
    LowerBound,
    PartitionProblem,
)
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.families.ring.loads.window_costs import holds
from mcm_passes.families.ring.order_encoding.chip_windows import (
    SLACK,
    Amounts,
    ChipWindows,
    Side,
    narrowed,
    sides_of,
)
from mcm_passes.mapping.bounds.work_around import WorkAround, sums_over, work_around
from mcm_passes.mapping.problem.resident_sizes import sram_blocks, weight_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph, members_of, weight_users

LEAST_RUN_SHARE = 0.01
"""Share of all work from which on a run is worth looking at."""


@dataclass(frozen=True, eq=False)
class WeightRuns:
    """Work with gaps counted elsewhere, and by how much that can be wrong.

    Steps of a recurrence use one weight after each other (our derivation). A chip runs all of them
    between its first and its last, and so all work between them: a gap is counted with the step
    before it. A chip that runs a part of such a run counts at most one gap too much. Its memory
    limits how many runs it can hold parts of, because it needs the weight of each.

    On each chip of each valid partition the sum of `work_s` is at most what the chip is really
    busy for, plus `gap_s` of every run that it holds a part of.

    Attributes:
        work_s: `[n]`, seconds of each node.
        users: nodes of each of the G runs, ascending.
        gap_s: `[G]`, seconds that each node of a run counts more than it takes.
        room: `[G]`, memory blocks of the weights that each node of a run needs.
    """

    work_s: Floats
    users: tuple[Ints, ...]
    gap_s: Floats
    room: Longs

    def excess_s(self, windows: ChipWindows, chips: int, sram_room: Longs | None) -> Floats:
        """`[C]`, the most that sums of `work_s` on a chip can be beyond its work.

        Args:
            windows: the chips that each node can be on.
            chips: C.
            sram_room: `[C]`, memory blocks of each chip, or None where weights can be streamed.
        """
        excess = np.zeros(chips)
        lowest = np.array([windows.low[users].min() for users in self.users])
        highest = np.array([windows.high[users].max() for users in self.users])
        for chip in range(chips):
            here = (lowest <= chip) & (chip <= highest)
            gaps = np.sort(self.gap_s[here])[::-1]
            count = gaps.size
            if sram_room is not None:
                held = np.cumsum(np.sort(self.room[here]))
                count = int(np.searchsorted(held, sram_room[chip], side="right"))
            excess[chip] = gaps[:count].sum()
        return excess


def weight_runs(problem: PartitionProblem, around: WorkAround) -> WeightRuns:
    """The runs of a problem; there are none where no weight is shared along a path."""
    work_s, least_s = around.own_s.copy(), LEAST_RUN_SHARE * float(around.own_s.sum())
    blocks_of = _shared_blocks(problem, around.graph)
    alone = np.ones(work_s.size, np.bool_)
    for users in blocks_of:
        alone[list(users)] = False
    seconds = {users: float(work_s[list(users)].sum()) for users in blocks_of}
    heavy = [users for users in blocks_of if seconds[users] >= least_s]
    between = {
        users: inside & alone
        for users in sorted(heavy, key=lambda users: -seconds[users])
        if (inside := _between(np.array(users), around)) is not None
    }
    # A run with wide gaps would make chips look roomier than others of its kind are.
    most_s = _weighted_median(
        np.array([(inside @ work_s).min() for inside in between.values()]),
        np.array([seconds[users] for users in between]),
    )
    kept: list[Ints] = []
    gaps: list[float] = []
    for users, inside in between.items():
        inside_s = inside @ work_s
        gap = min(float(inside_s.min()), most_s)
        if gap > 0.0:
            work_s *= 1.0 - (gap / inside_s) @ inside
            kept.append(np.array(users, np.int32))
            work_s[kept[-1]] += gap
            gaps.append(gap)
    room = [blocks_of[tuple(users.tolist())] for users in kept]
    return WeightRuns(work_s, tuple(kept), np.array(gaps), np.array(room, np.int64))


def _shared_blocks(problem: PartitionProblem, graph: RuleGraph) -> dict[tuple[int, ...], int]:
    """The memory blocks of all weights that the same nodes share, by these nodes."""
    users = weight_users(problem, graph)
    found: dict[tuple[int, ...], int] = {}
    for w, blocks in enumerate(weight_blocks(problem).tolist()):
        key = tuple(users.row(w).tolist())
        if len(key) > 1:
            found[key] = found.get(key, 0) + blocks
    return found


def _between(users: Longs, around: WorkAround) -> Bools | None:
    """`[k - 1, n]`, the nodes between neighbours of k users; None if these are on no path."""
    earlier, later = users[:-1], users[1:]
    words = around.descendants[earlier, later >> 6]
    if not (words >> (later & 63).astype(np.uint64) & np.uint64(1)).all():
        return None
    return members_of(around.descendants[earlier] & around.ancestors[later], around.own_s.size)


def _weighted_median(values: Floats, weights: Floats) -> float:
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(passed, 0.5 * passed[-1])]])


PROOF = "packed_windows"

MOST_NODES = 6_000
"""Nodes up to which the bound is looked for; at 3,000 it takes two seconds."""

MOST_HEAVY = 500
"""Nodes that are poured in piece by piece; all others are sand."""

LEAST_NODE_SHARE = 0.02
"""Share of the average chip's work from which on a node is heavy."""

SIZES = 4
"""Sizes of pieces that are counted."""

ROUNDS = 12
"""Passes over all arguments at most; each may sharpen the next."""

GRAIN = 1e-5
"""Relative width at which the bisection stops."""


class PackedWindows:
    """A problem prepared for windows at many periods, with units and weights that are not divided.

    They are those of `UnitWindows`, but for three things. Units with much work are poured in one by
    one, each not before the chip that it can be on itself, and also as whole pieces of some sizes.
    Gates are not asked. Each distinct weight is held at least once. Windows that shrink sharpen
    all of this, so that it is done until none does.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        around = work_around(problem)
        own_s = around.own_s
        self.graph = around.graph
        least_s = LEAST_NODE_SHARE * float(own_s.sum()) / problem.num_chips
        by_work = np.argsort(-own_s, kind="stable")[:MOST_HEAVY]
        heavy = np.sort(by_work[own_s[by_work] >= least_s]).astype(np.int32)
        self._sides = sides_of(around)
        self._speed = problem.chip_speed
        self._runs = weight_runs(problem, around)
        counted = [own_s, self._runs.work_s] if self._runs.users else [own_s]
        self._works = [
            tuple(_amounts(side, heavy, seconds) for side in self._sides) for seconds in counted
        ]
        self._sram = None if problem.streams else sram_blocks(problem)
        self._users, self._room = weight_users(problem, self.graph), weight_blocks(problem)
        held = self._room[self._users.owners]
        self._own = np.bincount(self._users.entries, held, own_s.size).astype(np.int64)

    def at(self, period_s: float, wider: ChipWindows | None = None) -> ChipWindows:
        """The chips that each node can be on in any valid partition within `period_s`.

        Lower periods only narrow them.

        Args:
            period_s: the period.
            wider: windows of a longer period, to begin with.
        """
        windows = wider or ChipWindows(self.graph.low, self.graph.high)
        chips = self._speed.size
        for _ in range(ROUNDS):
            before = windows
            for k, amounts in enumerate(self._works):
                # Room for the node itself too, whose sums are taken in another order.
                capacity = self._speed * (period_s * (1.0 + 2.0 * SLACK))
                if k:
                    capacity = capacity + self._runs.excess_s(windows, chips, self._sram)
                windows = narrowed(self._sides, windows, amounts, capacity)
                if windows.empty:
                    return windows
            if self._sram is not None:
                windows = self._by_memory(windows, self._sram)
            if windows.empty or all(map(np.array_equal, windows, before)):
                break
        return windows

    def _by_memory(self, windows: ChipWindows, sram: Longs) -> ChipWindows:
        chips, weights = sram.size, (self._users, self._room, self._own)
        low = _lowest_by_memory(self._sides[0], windows.low, *weights, sram)
        floor = windows.turned(chips).low
        from_end = _lowest_by_memory(self._sides[1], floor, *weights, sram[::-1].copy())
        return ChipWindows(low, (chips - 1 - from_end).astype(np.int32))


def packing_bound(problem: PartitionProblem, least_s: float, most_s: float) -> LowerBound:
    """The longest period between `least_s` and `most_s` at which some node has no chip left.

    Args:
        problem: the problem.
        least_s: a bound that is known already.
        most_s: the period of a known partition.

    Returns:
        0 seconds where nothing beyond `least_s` is proven.
    """
    nothing = LowerBound(0.0, "units and weights pack")
    nodes = int((~problem.clonable).sum())
    if not 0 < nodes <= MOST_NODES or not 0.0 < least_s < most_s < np.inf:
        return nothing
    packed = PackedWindows(problem)
    low, high = least_s * (1.0 + GRAIN), most_s
    windows, wider = packed.at(low), None
    if not windows.empty:
        return nothing
    while high - low > GRAIN * high:
        # Optima tend to be near what is known.
        middle = low + 0.6 * (high - low)
        found = packed.at(middle, wider)
        if found.empty:
            low, windows = middle, found
        else:
            high, wider = middle, found
    node = int(np.argmax(windows.low - windows.high))
    return LowerBound(
        low,
        f"within {seconds_text(low)} no chip is left for unit "
        f"{quote(problem.names[packed.graph.units[node]])}, with weights that share memory and "
        f"{count_text(nodes, 'unit')} that are not divided",
        PROOF,
    )


def _amounts(side: Side, heavy: Ints, seconds: Floats) -> Amounts:
    """Work as one end sees it, heavy nodes one by one and as pieces of common sizes."""
    light = seconds[:, None].copy()
    light[heavy] = 0.0
    sizes = _common_sizes(seconds[heavy])
    pieces = np.floor(seconds[heavy] / sizes[:, None] + SLACK)
    return Amounts(
        seconds,
        sums_over(side.before, light)[:, 0] * (1.0 - SLACK),
        np.empty(0),
        heavy,
        np.append(0.0, sizes),
        np.vstack([seconds[heavy] * (1.0 - SLACK), pieces]),
    )


def _common_sizes(work_s: Floats) -> Floats:
    """Sizes that hold most work, rounded down to the least of those that are almost the same."""
    if not work_s.size:
        return np.empty(0)
    ordered = np.sort(work_s)
    starts = np.flatnonzero(np.diff(ordered, prepend=0.0) > 1e-3 * ordered)
    sums = np.add.reduceat(ordered, starts)
    best = np.argsort(-sums, kind="stable")[:SIZES]
    return np.sort(ordered[starts[best]])


@entry_njit
def _lowest_by_memory(
    side: Side, floor: Ints, users: Rows, room: Longs, own: Longs, capacity: Longs
) -> Ints:
    """`[n]`, the lowest chip of each node by the weights that it and all before it need.

    Each distinct weight is held at least once, not before the last chip that one of its users is
    known not to be before. What the node itself needs is held on its own chip.

    Args:
        side: the graph.
        floor: `[n]`, chips that the nodes are known not to be before.
        users: `[W]` rows, nodes that use each weight.
        room: `[W]`, memory blocks of each.
        own: `[n]`, memory blocks that each node uses.
        capacity: `[C]`, blocks.

    Returns:
        Chips are C where a node has none.
    """
    n, chips = floor.size, capacity.size
    low = np.zeros(n, np.int32)
    released = np.empty(chips, np.int64)
    for v in side.order:
        chip = int(floor[v])
        for u in side.leads.entries[side.leads.ptr[v] : side.leads.ptr[v + 1]]:
            chip = max(chip, int(low[u]))
        # With no weight of its own, a predecessor that comes after all others has shown it.
        if chip < chips and (own[v] > 0 or side.joins[v]):
            _release_weights(side, low, users, room, v, released)
            chip = _first_with_room(released, int(own[v]), capacity, chip)
        low[v] = chip
    return low


@lean_inner_njit
def _release_weights(
    side: Side, low: Ints, users: Rows, room: Longs, v: int, released: Longs
) -> None:
    """Fills `released[C]` with the weights of what comes before a node, its own left out."""
    released[:] = 0
    for w in range(room.size):
        latest = -1
        for e in range(users.ptr[w], users.ptr[w + 1]):
            u = users.entries[e]
            if u == v:
                latest = -1
                break
            if holds(side.before, v, u):
                latest = max(latest, int(low[u]))
        if latest >= 0:
            released[latest] += room[w]


@lean_inner_njit
def _first_with_room(released: Longs, own: int, capacity: Longs, floor: int) -> int:
    """The first chip from `floor` on with `own` blocks of free memory; C where none has as many.

    `released[c]` blocks are on chip c or later ones, and go as early as possible.
    """
    carry = 0
    for c in range(capacity.size):
        carry += released[c]
        if c >= floor and carry + own <= capacity[c]:
            return c
        carry = max(carry - capacity[c], 0)
    return capacity.size
