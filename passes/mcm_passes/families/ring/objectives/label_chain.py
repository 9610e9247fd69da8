"""Chains of order ideals under two criteria: the period of a chain, and when it answers.

A chain's cost is its period, the largest of its windows. When an inference is answered follows from
when each tensor that crosses an ideal is on the next chip. A chain up to an ideal therefore has as
many times as tensors cross there, and chains are compared by all of them. A *label* is a chain up
to an ideal with its cost, the end of what it has given to the host, and those times. One that is
nowhere smaller than another with the same ideal, and no more chips, is of no use. So it is for
shortest paths under several criteria (Martins 1984, *On a Multicriteria Shortest Path Problem*).

Where there are too many labels, all chains up to an ideal are merged into one label. It has the
best of each: every tensor that crosses is on the next chip as early as by any of them, and no more
chips are used than by any. Nothing ends earlier where something arrives later. No chain that goes
on from the ideal therefore answers before what goes on from the merged label. This is a relaxation,
as merged nodes of decision diagrams are (Bergman et al. 2016, *Decision Diagrams for Optimization*,
chapter 4). The chip of a window is then left open: all are as fast and as large as the best.

Energy is a sum over windows, so that a label needs no times for it: its end is the energy so far.
Of chains within rounding of the least energy, the period decides: one label is kept of each ideal
and number of chips.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.exact.ideal_chain import (
    SLACK,
    ChipLimits,
    Covers,
    Triangles,
    keeps_rule,
    may_hold,
    streamed_blocks,
    window_period,
)
from mcm_passes.families.ring.loads.window_costs import (
    IdealCrossings,
    Window,
    WindowCost,
    holds,
    list_nodes,
    window_cost,
    window_loads,
    window_scratch,
)
from mcm_passes.families.ring.objectives.chip_play import PlayedProblem, PlayScratch, play_chip
from mcm_passes.mapping.loads.chip_demands import ChipDemands

TIE = 1e-12
"""Energies nearer than this share of the least are equal."""

LEAST_GAIN = 3.0 * SLACK
"""Share by which a chain must answer earlier than one that is known: more than rounding is."""


class Goal(NamedTuple):
    """The aim of a search.

    Attributes:
        least_latency: whether the latency is to be least; else the period is.
        period_s: chains from this period on are left out; may be infinite.
        latency_s: chains that answer later are left out; may be infinite.
        most_windows: the search stops beyond this number of windows.
        most_labels: the search stops beyond this number of labels.
        beam: labels that are kept of each ideal and number of chips; 0 for all of them.
        merges: whether all labels of an ideal are merged, where chips are alike.
        energy: whether ends and limits on them are joules, and no inference is played.
    """

    least_latency: bool
    period_s: float
    latency_s: float
    most_windows: int
    most_labels: int
    beam: int
    merges: bool = False
    energy: bool = False


class Prices(NamedTuple):
    """The energy of a problem.

    Attributes:
        demands: with joules for seconds.
        package: the chips with bytes per joule for bytes per second.
        nodes_j: `[I]`, joules of the nodes that an ideal lacks, with what they give to the host.
        beyond_j: `[I]`, the same and once all that some of them need: what a chain that hands over
            there spends beyond at least.
        always_j: joules of every chain in addition to its windows.
        most_sram: blocks of the largest SRAM.
    """

    demands: ChipDemands
    package: ChipLimits
    nodes_j: Floats
    beyond_j: Floats
    always_j: float
    most_sram: int


class Lattice(NamedTuple):
    """A problem and its ideals as the search takes them.

    Attributes:
        played: the problem.
        cuts: what crosses its ideals.
        covers: of the ideals.
        pinned: as for `best_chain`.
        package: the chips.
        triangles: how windows treat long dependencies.
        beyond_s: as long as `cuts.crossing`, the least time from when that tensor is on a later
            chip to the end of the inference.
        streamed_s: seconds of a block of streamed weights.
        prices: of the energy; not used by other goals.
    """

    played: PlayedProblem
    cuts: IdealCrossings
    covers: Covers
    pinned: Longs
    package: ChipLimits
    triangles: Triangles
    beyond_s: Floats
    streamed_s: float
    prices: Prices


class Labels(NamedTuple):
    """L labels in R rows; the first is the empty chain.

    Attributes:
        times_s: `[R, 3 + W]`: the `PERIOD`; the `END` of what is given to the host or run so far;
            the `LEAST` time at which a chain that goes on from the label answers. Then follow the
            times at which the tensors that cross its ideal are on the next chip, in order. Of
            energies, `END` and `LEAST` are joules, and no times follow.
        links: `[R, 3]`: the label `BEFORE`, which it goes on from; its `IDEAL`; and the `NEXT`
            label of the same ideal and number of chips, or -1.
        first: `[I, C + 1]`, the first of them.
        kept: `[I, C + 1]`, how many there are.
        counts: `[4]`, labels that were `MADE`, `WINDOWS` that were weighed, labels that a beam has
            dropped, and the `BEST` whole chain, or -1.
        most: `[2]`, limits of useful chains, which shrink as chains are found: below a period, and
            not beyond an end.
    """

    times_s: Floats
    links: Ints
    first: Ints
    kept: Ints
    counts: Longs
    most: Floats


PERIOD, END, LEAST, ARRIVALS = range(4)
BEFORE, IDEAL, NEXT = range(3)
MADE, WINDOWS, _DROPPED, BEST = range(4)


@entry_njit
def label_chains(lattice: Lattice, goal: Goal, scratch: PlayScratch) -> tuple[Labels, bool]:
    """The best whole chain that a goal allows.

    Returns:
        All labels, and whether everything was looked at, so that there is no better chain.
    """
    cuts, package, covers, prices = lattice.cuts, lattice.package, lattice.covers, lattice.prices
    demands = lattice.played.demands
    count, words = cuts.members.shape
    fastest = package.speed.max()
    widest = (cuts.crossing_ptr[1:] - cuts.crossing_ptr[:-1]).max()
    chips = package.speed.size
    labels = Labels(
        np.zeros((1024, ARRIVALS + (0 if goal.energy else widest))),
        np.full((1024, 3), -1, np.int32),
        np.full((count, chips + 1), -1, np.int32),
        np.zeros((count, chips + 1), np.int32),
        np.array([1, 0, 0, -1], np.int64),
        np.array([goal.period_s, goal.latency_s]),
    )
    labels.times_s[0, PERIOD] = demands.host_s
    labels.times_s[0, END] = prices.always_j if goal.energy else 0.0
    labels.first[0, 0], labels.kept[0, 0] = 0, 1
    windows = window_scratch(demands)
    inside = np.zeros(words, np.uint64)
    seen = np.full(count, -1, np.int64)
    queue = np.empty(count, np.int64)
    for i in range(count - 1):
        if not labels.kept[i].any() or _least(labels, i, LEAST) > labels.most[END]:
            continue
        begin_s = _begin_s(lattice, labels, i, goal.energy)
        head, tail = 0, 1
        queue[0] = i
        while head < tail:
            j = queue[head]
            head += 1
            if j != i:
                labels.counts[WINDOWS] += 1
                if labels.counts[WINDOWS] > goal.most_windows:
                    return labels, False
                for w in range(words):
                    inside[w] = cuts.members[j, w] & ~cuts.members[i, w]
                window = Window(i, j, inside)
                # Marks differ between the two kinds of demands, which share what is marked.
                mark = 2 * labels.counts[WINDOWS]
                cost = window_cost(demands, cuts, window, windows, mark, package.packing)
                # All that is counted only grows with the window.
                too_slow = cost.seconds > labels.most[PERIOD] * fastest * (1.0 + SLACK)
                if too_slow or cost.weight_room > package.most_room:
                    continue
                least_s, ended_j = cost.seconds / fastest * (1.0 - SLACK), 0.0
                if goal.energy:
                    joules = window_loads(prices.demands, cuts, window, windows, mark + 1)
                    host_bytes = joules.in_bytes + joules.out_bytes
                    kept_j = joules.seconds + host_bytes / prices.package.host_bytes_per_s
                    least_s = prices.nodes_j[j] + kept_j
                    least_s += _streamed_j(prices, cost.weight_room - prices.most_sram)
                    moved_j = joules.link_bytes / prices.package.link_bytes_per_s
                    ended_j = kept_j + joules.relay_s + moved_j
                if begin_s + least_s > labels.most[END]:
                    continue
                nodes = windows.nodes[: list_nodes(inside, windows.nodes)]
                labels = _extend(lattice, goal, labels, scratch, window, cost, ended_j, nodes)
                if labels.counts[MADE] > goal.most_labels:
                    return labels, False
            for e in range(covers.ptr[j], covers.ptr[j + 1]):
                larger = covers.ideals[e]
                if seen[larger] != i:
                    seen[larger] = i
                    queue[tail] = larger
                    tail += 1
    return labels, labels.counts[_DROPPED] == 0


@inner_njit
def _extend(
    lattice: Lattice,
    goal: Goal,
    labels: Labels,
    scratch: PlayScratch,
    window: Window,
    cost: WindowCost,
    ended_j: float,
    nodes: Ints,
) -> Labels:
    """Goes on from all labels at the start of a window with every chip that may hold it.

    Args:
        lattice: the problem.
        goal: the aim.
        labels: as they are.
        scratch: for plays.
        window: the window.
        cost: of the window.
        ended_j: for a goal of energy, joules of the window and of the link behind it, but for
            streamed weights.
        nodes: of the window, ascending.

    Returns:
        The labels, with space for all.
    """
    package, cuts, i, j = lattice.package, lattice.cuts, window.start, window.end
    if not keeps_rule(lattice.played.demands.tensors, cuts, lattice.triangles, window):
        return labels
    labels = _with_room(labels, i)
    whole = j == cuts.members.shape[0] - 1
    leaving = cuts.crossing[cuts.crossing_ptr[j] : cuts.crossing_ptr[j + 1]]
    for k in range(package.speed.size):
        ends = k + 1 == package.speed.size and not (whole or goal.merges)
        if labels.first[i, k] < 0 or ends or not may_hold(lattice.pinned, window, k):
            continue
        window_s = window_period(package, cost, k)
        if not window_s < labels.most[PERIOD]:
            continue
        streamed = max(streamed_blocks(package, cost, k), 0)
        streamed_s = streamed * lattice.streamed_s
        old = labels.first[i, k]
        while old >= 0:
            at, old = old, labels.links[old, NEXT]
            period_s = float(max(labels.times_s[at, PERIOD], window_s))
            if not period_s < labels.most[PERIOD] or labels.times_s[at, LEAST] > labels.most[END]:
                continue
            new = labels.counts[MADE]
            labels.links[new, BEFORE], labels.links[new, IDEAL] = at, j
            labels.times_s[new, PERIOD] = period_s
            if goal.energy:
                spent_j = labels.times_s[at, END] + ended_j
                spent_j += _streamed_j(lattice.prices, streamed)
                labels.times_s[new, END] = spent_j
                labels.times_s[new, LEAST] = spent_j + lattice.prices.beyond_j[j]
            else:
                _play(lattice, labels, new, k, nodes, leaving, streamed_s, scratch)
            if labels.times_s[new, LEAST] > labels.most[END]:
                continue
            if goal.merges and not whole:
                _merge(lattice, labels, new, k + 1)
            elif not _is_dominated(lattice, labels, new, k + 1, goal.energy) and (
                whole or _finds_room(goal, labels, new, k + 1)
            ):
                _enter(labels, new, k + 1)
                if whole:
                    _note_best(goal, labels, new)
    return labels


@inner_njit
def _with_room(labels: Labels, ideal: int) -> Labels:
    """The same labels with space for as many more as an ideal has."""
    made, room = labels.counts[MADE], len(labels.times_s)
    needed = made + labels.kept[ideal].sum()
    if needed <= room:
        return labels
    while needed > room:
        room *= 2
    times_s, links = np.empty((room, labels.times_s.shape[1])), np.empty((room, 3), np.int32)
    times_s[:made], links[:made] = labels.times_s[:made], labels.links[:made]
    return Labels(times_s, links, labels.first, labels.kept, labels.counts, labels.most)


@lean_inner_njit
def _least(labels: Labels, ideal: int, column: int) -> float:
    """The least of a column over all labels of an ideal; infinite where there is none."""
    least = np.inf
    for c in range(labels.first.shape[1]):
        at = labels.first[ideal, c]
        while at >= 0:
            least = min(least, labels.times_s[at, column])
            at = labels.links[at, NEXT]
    return float(least)


@lean_inner_njit
def _begin_s(lattice: Lattice, labels: Labels, ideal: int, energy: bool) -> float:
    """No chip that takes over at an ideal begins earlier; of energies, no chain has spent less.

    Nodes that depend on no other may begin at once; all others wait for something that crosses.
    """
    cuts, covers = lattice.cuts, lattice.covers
    if energy:
        return _least(labels, ideal, END)
    for e in range(covers.ptr[0], covers.ptr[1]):
        if not holds(cuts.members, ideal, covers.nodes[e]):
            return 0.0
    begin_s = np.inf
    for t in range(_width(cuts, ideal)):
        begin_s = min(begin_s, _least(labels, ideal, ARRIVALS + t))
    return float(begin_s)


@inlined_njit
def _streamed_j(prices: Prices, blocks: int) -> float:
    """Joules of blocks of weights that are streamed, if there are any."""
    if blocks <= 0:
        return 0.0
    return float(prices.package.block_bytes * blocks / prices.package.stream_bytes_per_s)


@inlined_njit
def _note_best(goal: Goal, labels: Labels, whole: int) -> None:
    """Limits chains to those that are of use where a whole one is known."""
    end_s = labels.times_s[whole, END]
    labels.counts[BEST] = whole
    if goal.energy:
        # Ties are settled at the end.
        labels.most[END] = min(labels.most[END], end_s * (1.0 + SLACK))
    elif goal.least_latency:
        labels.most[END] = end_s * (1.0 - LEAST_GAIN)
    else:
        labels.most[PERIOD] = labels.times_s[whole, PERIOD]


@inlined_njit
def _enter(labels: Labels, new: int, chips: int) -> None:
    """Enters the next label among those of its ideal and number of chips."""
    ideal = labels.links[new, IDEAL]
    labels.links[new, NEXT] = labels.first[ideal, chips]
    labels.first[ideal, chips] = new
    labels.kept[ideal, chips] += 1
    labels.counts[MADE] = max(labels.counts[MADE], new + 1)


@inlined_njit
def _take_off(labels: Labels, old: int, previous: int, chips: int) -> None:
    """Takes a label off those of its ideal and number of chips, where it follows another or -1."""
    ideal = labels.links[old, IDEAL]
    if previous < 0:
        labels.first[ideal, chips] = labels.links[old, NEXT]
    else:
        labels.links[previous, NEXT] = labels.links[old, NEXT]
    labels.kept[ideal, chips] -= 1


@lean_inner_njit
def _merge(lattice: Lattice, labels: Labels, new: int, chips: int) -> None:
    """Takes the best of the next label and that of its ideal, with the fewest chips of both."""
    ideal = labels.links[new, IDEAL]
    for c in range(labels.first.shape[1]):
        old = labels.first[ideal, c]
        if old >= 0:
            for t in range(ARRIVALS + _width(lattice.cuts, ideal)):
                labels.times_s[old, t] = min(labels.times_s[old, t], labels.times_s[new, t])
            _note_least(lattice, labels, old)
            _take_off(labels, old, -1, c)
            new, chips = old, min(c, chips)
            break
    _enter(labels, new, chips)


@lean_inner_njit
def _width(cuts: IdealCrossings, ideal: int) -> int:
    """How many tensors cross an ideal."""
    return int(cuts.crossing_ptr[ideal + 1] - cuts.crossing_ptr[ideal])


@lean_inner_njit
def _play(
    lattice: Lattice,
    labels: Labels,
    new: int,
    chip: int,
    nodes: Ints,
    leaving: Ints,
    streamed_s: float,
    scratch: PlayScratch,
) -> None:
    """Plays the chip of a new label, and fills in its times."""
    cuts, at, ideal = lattice.cuts, labels.links[new, BEFORE], labels.links[new, IDEAL]
    start = labels.links[at, IDEAL] if at > 0 else 0
    for t in range(_width(cuts, start)):
        tensor = cuts.crossing[cuts.crossing_ptr[start] + t]
        scratch.arrival_s[tensor] = labels.times_s[at, ARRIVALS + t]
    # What other chips take of channels that all share is left out, which makes none slower.
    scratch.clock_s[:] = 0.0
    end_s = play_chip(lattice.played, chip, nodes, leaving, leaving[:0], streamed_s, scratch)
    labels.times_s[new, END] = max(end_s, labels.times_s[at, END])
    for t in range(_width(cuts, ideal)):
        tensor = cuts.crossing[cuts.crossing_ptr[ideal] + t]
        labels.times_s[new, ARRIVALS + t] = scratch.done_s[tensor]
    _note_least(lattice, labels, new)


@lean_inner_njit
def _note_least(lattice: Lattice, labels: Labels, label: int) -> None:
    """Fills in `LEAST` of a label."""
    cuts, ideal = lattice.cuts, labels.links[label, IDEAL]
    least_s = labels.times_s[label, END]
    for t in range(_width(cuts, ideal)):
        beyond_s = lattice.beyond_s[cuts.crossing_ptr[ideal] + t]
        least_s = max(least_s, labels.times_s[label, ARRIVALS + t] + beyond_s)
    labels.times_s[label, LEAST] = least_s * (1.0 - SLACK)


@inlined_njit
def _is_dominated(lattice: Lattice, labels: Labels, new: int, chips: int, energy: bool) -> bool:
    """Return whether a label dominates the new one; drops those that the new one dominates."""
    ideal = int(labels.links[new, IDEAL])
    width = -1 if energy else _width(lattice.cuts, ideal)
    fewest = 1 if lattice.package.alike else chips
    for c in range(fewest, chips + 1):
        old = int(labels.first[ideal, c])
        while old >= 0:
            if _nowhere_larger(labels, old, new, width):
                return True
            old = int(labels.links[old, NEXT])
    previous, old = -1, int(labels.first[ideal, chips])
    while old >= 0:
        following = int(labels.links[old, NEXT])
        if _nowhere_larger(labels, new, old, width):
            _take_off(labels, old, previous, chips)
        else:
            previous = old
        old = following
    return False


@inlined_njit
def _nowhere_larger(labels: Labels, one: int, other: int, width: int) -> bool:
    """Return whether a label is nowhere larger; a `width` below 0 is of energies, with ties."""
    if width < 0:
        least_j, more_j = labels.times_s[one, END], labels.times_s[other, END]
        ties = least_j <= more_j * (1.0 + TIE)
        faster = labels.times_s[one, PERIOD] <= labels.times_s[other, PERIOD]
        return bool(least_j * (1.0 + TIE) < more_j or (ties and faster))
    for t in range(ARRIVALS + width):
        if t != LEAST and labels.times_s[one, t] > labels.times_s[other, t]:
            return False
    return True


@lean_inner_njit
def _finds_room(goal: Goal, labels: Labels, new: int, chips: int) -> bool:
    """Return whether a label is kept: in a beam that is full, the one that promises least goes."""
    ideal = labels.links[new, IDEAL]
    if goal.beam == 0 or labels.kept[ideal, chips] < goal.beam:
        return True
    labels.counts[_DROPPED] += 1
    worst, before_worst, previous, old = new, -1, -1, labels.first[ideal, chips]
    while old >= 0:
        if labels.times_s[old, LEAST] > labels.times_s[worst, LEAST]:
            worst, before_worst = old, previous
        previous, old = old, labels.links[old, NEXT]
    if worst == new:
        return False
    _take_off(labels, worst, before_worst, chips)
    return True
