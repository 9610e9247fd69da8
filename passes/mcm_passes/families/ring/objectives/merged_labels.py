"""A bound on latencies over chains of order ideals, with one label for each ideal.

Where a search over labels (`label_chain`) has too many of them, all chains up to an ideal are
merged into one that has the best of each: every tensor that crosses is on the next chip as early as
by any of them, and no more chips are used than by any. Nothing ends earlier where something arrives
later, so that no chain that goes on from the ideal answers before what goes on from the merged one:
a relaxation, as merged nodes of decision diagrams are (Bergman et al. 2016, *Decision Diagrams for
Optimization*, chapter 4). Which chip a window is on is left open: it is as fast and has as much
memory as the best, and pins count for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Longs
from mcm_passes.families.ring.exact.ideal_chain import SLACK, window_period
from mcm_passes.families.ring.loads.crossings import IdealCrossings, holds
from mcm_passes.families.ring.loads.window_costs import Window, window_cost, window_scratch
from mcm_passes.families.ring.objectives.chip_play import Handover, PlayScratch, play_chip
from mcm_passes.families.ring.objectives.label_chain import Lattice, list_inside, queue_larger
from mcm_passes.mapping.loads.device_memory import streamed_weights


class Merged(NamedTuple):
    """One label for each of I ideals; infinite and C + 1 chips where no chain leads to it.

    Attributes:
        end_s: `[I]`, end of what is given to the host or run so far.
        arrival_s: as long as `cuts.crossing`, when that tensor is on the next chip.
        fewest: `[I]`, chips.
    """

    end_s: Floats
    arrival_s: Floats
    fewest: Longs


@entry_njit
def merged_bound(
    lattice: Lattice,
    period_s: float,
    latency_s: float,
    most_windows: int,
    scratch: PlayScratch,
) -> tuple[float, int]:
    """No chain with a smaller period answers earlier.

    Args:
        lattice: the problem, all chips of which are as fast and as large as the best.
        period_s: chains from this period on do not count; may be infinite.
        latency_s: later answers do not count.
        most_windows: gives up beyond so many.
        scratch: of the problem.

    Returns:
        The latency, infinite where no chain answers by `latency_s`; and windows, which are beyond
        `most_windows` where it gave up.
    """
    cuts, package = lattice.cuts, lattice.package
    count, words = cuts.members.shape
    chips = package.speed.size
    labels = Merged(
        np.full(count, np.inf), np.full(cuts.crossing.size, np.inf), np.full(count, chips + 1)
    )
    labels.end_s[0], labels.fewest[0] = 0.0, 0
    found_s = np.inf
    windows = window_scratch(lattice.played.demands)
    inside = np.zeros(words, np.uint64)
    nodes = np.empty(lattice.played.demands.nodes.work_s.size, np.int32)
    seen = np.full(count, -1, np.int64)
    queue = np.empty(count, np.int64)
    weighed = 0
    for i in range(count - 1):
        if labels.fewest[i] >= chips or _least_s(lattice, labels, i) > latency_s:
            continue
        begin_s = _earliest_s(lattice, labels, i)
        head, tail = 0, 1
        queue[0] = i
        while head < tail:
            j = queue[head]
            head += 1
            if j != i:
                weighed += 1
                if weighed > most_windows:
                    return found_s, weighed
                for w in range(words):
                    inside[w] = cuts.members[j, w] & ~cuts.members[i, w]
                window = Window(i, j, inside)
                demands = lattice.played.demands
                cost = window_cost(demands, cuts, window, windows, weighed, package.packing)
                busy_s = begin_s + cost.seconds / package.speed[0] * (1.0 - SLACK)
                if cost.weight_room > package.most_room or busy_s > latency_s:
                    continue
                if window_period(package, cost, 0) < period_s:
                    whole = j == count - 1
                    streamed = streamed_weights(
                        cost.room,
                        cost.weight_room,
                        cost.largest_weight,
                        package.sram_room[0],
                        package.stream_bytes_per_s > 0.0,
                        package.stream_buffers,
                    )
                    leaving = cuts.crossing[cuts.crossing_ptr[j] : cuts.crossing_ptr[j + 1]]
                    given = Handover(
                        0 if i == 0 else 1,
                        nodes[: list_inside(inside, nodes)],
                        leaving,
                        leaving[:0],
                        max(streamed, 0) * lattice.streamed_s,
                        (0.0, 0.0),
                    )
                    for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
                        scratch.arrival_s[cuts.crossing[e]] = labels.arrival_s[e]
                    played = lattice.played
                    end_s = play_chip(
                        demands, played.reads, played.rates, given, played.entering, scratch
                    )
                    end_s = max(end_s, labels.end_s[i])
                    if whole:
                        if end_s <= latency_s:
                            found_s = latency_s = end_s
                    else:
                        _merge(labels, cuts, scratch, j, end_s, labels.fewest[i] + 1)
            tail = queue_larger(lattice.covers, seen, queue, tail, i, j)
    return found_s, weighed


@lean_inner_njit
def _least_s(lattice: Lattice, labels: Merged, ideal: int) -> float:
    """No inference that goes on from the label of an ideal is answered earlier."""
    cuts, least_s = lattice.cuts, labels.end_s[ideal]
    for e in range(cuts.crossing_ptr[ideal], cuts.crossing_ptr[ideal + 1]):
        least_s = max(least_s, labels.arrival_s[e] + lattice.beyond_s[e])
    return float(least_s * (1.0 - SLACK))


@lean_inner_njit
def _earliest_s(lattice: Lattice, labels: Merged, ideal: int) -> float:
    """No chip that takes over at an ideal begins earlier.

    Nodes that depend on no other may begin at once; all others wait for something that crosses.
    """
    cuts, covers = lattice.cuts, lattice.covers
    for e in range(covers.ptr[0], covers.ptr[1]):
        if not holds(cuts.members, ideal, covers.nodes[e]):
            return 0.0
    earliest_s = np.inf
    for e in range(cuts.crossing_ptr[ideal], cuts.crossing_ptr[ideal + 1]):
        earliest_s = min(earliest_s, labels.arrival_s[e])
    return float(earliest_s)


@lean_inner_njit
def _merge(
    labels: Merged,
    cuts: IdealCrossings,
    scratch: PlayScratch,
    ideal: int,
    end_s: float,
    chips: int,
) -> None:
    """Takes the best of a label and what a play has handed over."""
    labels.end_s[ideal] = min(labels.end_s[ideal], end_s)
    labels.fewest[ideal] = min(labels.fewest[ideal], chips)
    for e in range(cuts.crossing_ptr[ideal], cuts.crossing_ptr[ideal + 1]):
        labels.arrival_s[e] = min(labels.arrival_s[e], scratch.done_s[cuts.crossing[e]])
