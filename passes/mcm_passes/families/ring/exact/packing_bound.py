"""The packing bound: chips are bins, along the graph, with memory and shared weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.families.ring.exact import packed_windows
from mcm_passes.families.ring.exact.weight_runs import WeightRuns, weight_runs
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.mapping.problem.resident_sizes import sram_blocks, weight_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, closure, weight_users

PROOF = "packed_windows"

MOST_NODES = 6_000
"""Nodes up to which the bound is looked for; at 3,000 it takes two seconds."""

MOST_HEAVY = 500
"""Nodes that are poured in piece by piece; all others are sand."""

LEAST_SHARE = 0.02
"""Share of the average chip's work from which on a node is heavy."""

PIVOTS = 4
"""Nodes between which chips are filled anew."""

SIZES = 4
"""Sizes of pieces that are counted."""

ROUNDS = 12
"""Passes over all arguments at most; each may sharpen the next."""

GRAIN = 1e-5
"""Relative width at which the bisection stops."""


@dataclass(frozen=True, eq=False)
class _Work:
    """One way to count work: as it is, or with the gaps of runs."""

    seconds: partition.Floats
    light_from_start: partition.Floats
    light_from_end: partition.Floats
    sizes: partition.Floats
    runs: WeightRuns | None


class PackedWindows:
    """A problem prepared for windows at many periods.

    Args:
        problem: the problem.
        graph: its rule graph.
    """

    def __init__(self, problem: partition.PartitionProblem, graph: RuleGraph) -> None:
        n = graph.num_nodes
        ancestors, descendants = closure(graph)
        own_s = np.array(problem.compute_s[graph.units], np.float64)
        least_s = LEAST_SHARE * float(own_s.sum()) / problem.num_chips
        by_work = np.argsort(-own_s, kind="stable")[:MOST_HEAVY]
        heavy = np.sort(by_work[own_s[by_work] >= least_s]).astype(np.int32)
        pivots = _pivots(ancestors, descendants, own_s, heavy)
        along = np.arange(n, dtype=np.int32)
        self._graph = graph
        self._speed = problem.chip_speed
        before, behind = (graph.before_ptr, graph.before_nodes), (graph.next_ptr, graph.next_nodes)
        self._start = _side(along, before, ancestors, descendants, pivots, heavy)
        self._end = _side(
            along[::-1].copy(), behind, descendants, ancestors, pivots[::-1].copy(), heavy
        )
        self._works = [self._work(own_s, None)]
        runs = weight_runs(problem, graph, ancestors, descendants)
        if runs.users:
            self._works.append(self._work(runs.work_s, runs))
        self._sram: partition.Longs | None = None
        if not problem.streams:
            self._sram = sram_blocks(problem)
        self._weights = _weights_of(problem, graph)

    def _work(self, seconds: partition.Floats, runs: WeightRuns | None) -> _Work:
        return _Work(
            seconds,
            packed_windows.light_work(self._start, seconds),
            packed_windows.light_work(self._end, seconds),
            _common_sizes(seconds[self._start.heavy]),
            runs,
        )

    def at(self, period_s: float, wider: ChipWindows | None = None) -> ChipWindows:
        """The chips that each node can be on in any valid partition within `period_s`.

        Lower periods only narrow them. Arguments take turns until none narrows any window: work
        and memory, from either end of the ring (see `lowest_by_work` and `lowest_by_memory`).

        Args:
            period_s: the period.
            wider: windows of a longer period, to begin with.
        """
        windows = wider or ChipWindows(self._graph.low, self._graph.high)
        arguments = [partial(self._by_work, work=work, period_s=period_s) for work in self._works]
        if self._sram is not None:
            arguments.append(partial(self._by_memory, sram=self._sram))
        unchanged = 0
        for k in range(ROUNDS * len(arguments)):
            before = windows
            windows = arguments[k % len(arguments)](windows)
            if windows.empty:
                break
            same = all(map(np.array_equal, windows, before))
            unchanged = unchanged + 1 if same else 0
            if unchanged == len(arguments):
                break
        return windows

    def _by_work(self, windows: ChipWindows, *, work: _Work, period_s: float) -> ChipWindows:
        last = self._speed.size - 1
        capacity = self._speed * (period_s * (1.0 + packed_windows.SLACK))
        if work.runs is not None:
            capacity = capacity + work.runs.excess_s(windows, self._speed.size, self._sram)
        low, load = packed_windows.lowest_by_work(
            self._start, windows, work.seconds, work.light_from_start, capacity, work.sizes
        )
        narrowed = ChipWindows(low, windows.high)
        if narrowed.empty:
            return narrowed
        from_end, load_from_end = packed_windows.lowest_by_work(
            self._end,
            _turned(narrowed, last),
            work.seconds,
            work.light_from_end,
            capacity[::-1].copy(),
            work.sizes,
        )
        high = (last - from_end).astype(np.int32)
        # A node with one chip left has there what both ends say of it.
        both = load + load_from_end - work.seconds
        full = (low == high) & (
            both > capacity[np.clip(low, 0, last)] * (1.0 + packed_windows.SLACK)
        )
        return ChipWindows(low, np.where(full, low - 1, high).astype(np.int32))

    def _by_memory(self, windows: ChipWindows, *, sram: partition.Longs) -> ChipWindows:
        last = self._speed.size - 1
        low = packed_windows.lowest_by_memory(self._start, windows, self._weights, sram)
        narrowed = ChipWindows(low, windows.high)
        if narrowed.empty:
            return narrowed
        turned = _turned(narrowed, last)
        from_end = packed_windows.lowest_by_memory(
            self._end, turned, self._weights, sram[::-1].copy()
        )
        return ChipWindows(low, (last - from_end).astype(np.int32))


def packing_bound(
    problem: partition.PartitionProblem, graph: RuleGraph, least_s: float, most_s: float
) -> partition.LowerBound:
    """The longest period between `least_s` and `most_s` at which some node has no chip left.

    Args:
        problem: the problem.
        graph: its rule graph.
        least_s: a bound that is known already.
        most_s: the period of a known partition.

    Returns:
        0 seconds where nothing beyond `least_s` is proven.
    """
    nothing = partition.LowerBound(0.0, "units and weights pack")
    if not 0 < graph.num_nodes <= MOST_NODES or not 0.0 < least_s < most_s < np.inf:
        return nothing
    packed = PackedWindows(problem, graph)
    low, high = least_s * (1.0 + GRAIN), most_s
    windows, wider = packed.at(low), None
    if not windows.empty:
        return nothing
    while high - low > GRAIN * high:
        # Optima tend to lie near what is known.
        middle = low + 0.6 * (high - low)
        found = packed.at(middle, wider)
        if found.empty:
            low, windows = middle, found
        else:
            high, wider = middle, found
    node = int(np.argmax(windows.low - windows.high))
    return partition.LowerBound(
        low,
        f"within {seconds_text(low)} no chip is left for unit "
        f"{quote(problem.names[graph.units[node]])}, with weights that share memory and "
        f"{count_text(graph.num_nodes, 'unit')} that are not divided",
        PROOF,
    )


def _turned(windows: ChipWindows, last: int) -> ChipWindows:
    """Windows as they are seen from the last chip."""
    low, high = (last - windows.high).astype(np.int32), (last - windows.low).astype(np.int32)
    return ChipWindows(low, high)


def _side(
    order: partition.Ints,
    leads: tuple[partition.Longs, partition.Ints],
    before: Words,
    after: Words,
    pivots: partition.Ints,
    heavy: partition.Ints,
) -> packed_windows.Side:
    """A graph from one end; a node joins if k nodes come before a lead, and more than k + 1 it."""
    ptr, nodes = leads
    count = np.bitwise_count(before).sum(axis=1)
    degree = np.diff(ptr)
    node = np.repeat(np.arange(degree.size), degree)
    joins = degree > 0
    joins[node[count[nodes] + 1 == count[node]]] = False
    return packed_windows.Side(order, ptr, nodes, before, after, joins, pivots, heavy)


def _pivots(
    ancestors: Words, descendants: Words, own_s: partition.Floats, heavy: partition.Ints
) -> partition.Ints:
    """Nodes that most heavy work comes before or after, apart from each other by work before."""
    if not heavy.size or not own_s.any():
        return np.empty(0, np.int32)
    n = own_s.size
    above, below = np.zeros(n), np.zeros(n)
    for u in heavy.tolist():
        word, bit = u >> 6, np.uint64(u & 63)
        above += own_s[u] * (ancestors[:, word] >> bit & np.uint64(1))
        below += own_s[u] * (descendants[:, word] >> bit & np.uint64(1))
    total = float(own_s[heavy].sum())
    covered = above + below
    chosen: list[int] = []
    for v in np.argsort(-np.minimum(covered, 0.999 * total), kind="stable").tolist():
        # Of two with the same work before them the first tells as much.
        share = above[v] / total
        if not 0.02 < share < 0.98 or covered[v] < 0.9 * total:
            continue
        if all(abs(share - above[u] / total) > 0.05 for u in chosen):
            chosen.append(v)
        if len(chosen) == PIVOTS:
            break
    return np.sort(np.array(chosen, np.int32))


def _common_sizes(work_s: partition.Floats) -> partition.Floats:
    """Sizes that hold most work, rounded down to the least of those that are almost the same."""
    if not work_s.size:
        return np.empty(0)
    ordered = np.sort(work_s)
    starts = np.flatnonzero(np.diff(ordered, prepend=0.0) > 1e-3 * ordered)
    sums = np.add.reduceat(ordered, starts)
    best = np.argsort(-sums, kind="stable")[:SIZES]
    return np.sort(ordered[starts[best]])


def _weights_of(problem: partition.PartitionProblem, graph: RuleGraph) -> packed_windows.Weights:
    """The weights of the nodes."""
    of_nodes = weight_users(problem, graph).transposed(graph.num_nodes)
    return packed_windows.Weights(
        ptr=of_nodes.ptr,
        weights=of_nodes.entries.astype(np.int32),
        room=weight_blocks(problem),
    )
