"""Chains of order ideals under two criteria: what a chain costs, and when it answers.

A chain's cost is its period, the largest of its windows. When an inference is answered follows from
when each tensor that crosses an ideal is on the next chip, so that a chain up to an ideal has as
many times as tensors cross there, and chains are compared by all of them: a *label* is a chain up
to an ideal with its cost, the end of what it has given to the host, and those times. One that is
nowhere smaller than another with the same ideal, and no more chips, is of no use (labels as for
shortest paths under several criteria: Martins 1984, *On a Multicriteria Shortest Path Problem*).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.exact.ideal_chain import SLACK, ChipLimits, Covers, window_period
from mcm_passes.families.ring.exact.triangle_readings import Triangles, keeps_rule
from mcm_passes.families.ring.loads.crossings import IdealCrossings
from mcm_passes.families.ring.loads.window_costs import (
    Window,
    WindowCost,
    window_cost,
    window_scratch,
)
from mcm_passes.families.ring.objectives.chip_play import (
    Handover,
    PlayScratch,
    play_chip,
)
from mcm_passes.families.ring.objectives.latency import PlayedProblem
from mcm_passes.mapping.loads.device_memory import streamed_weights
from mcm_passes.mapping.problem.rule_graph import Words

LEAST_GAIN = 3.0 * SLACK
"""Share by which a chain must answer earlier than one that is known: more than rounding is."""


class Goal(NamedTuple):
    """What is sought.

    Attributes:
        least_latency: whether the latency is to be least; else the period is.
        period_s: chains from this period on are left out; may be infinite.
        latency_s: chains that answer later are left out; may be infinite.
        most_windows: gives up beyond so many windows.
        most_labels: gives up beyond so many labels.
        beam: labels that are kept of each ideal and number of chips; 0 for all of them.
    """

    least_latency: bool
    period_s: float
    latency_s: float
    most_windows: int
    most_labels: int
    beam: int


class Lattice(NamedTuple):
    """A problem and its ideals as the search takes them.

    Attributes:
        played: the problem.
        cuts: what crosses its ideals.
        covers: of the ideals.
        pinned: as for `best_chain`.
        package: the chips.
        triangles: how long dependencies are judged.
        beyond_s: as long as `cuts.crossing`, the least time from when that tensor is on a later
            chip to the end of the inference.
        streamed_s: seconds of a block of streamed weights.
    """

    played: PlayedProblem
    cuts: IdealCrossings
    covers: Covers
    pinned: Longs
    package: ChipLimits
    triangles: Triangles
    beyond_s: Floats
    streamed_s: float


class Labels(NamedTuple):
    """L labels; the first is the empty chain.

    Attributes:
        period_s: `[R]`.
        end_s: `[R]`, end of what is given to the host or run so far.
        least_s: `[R]`, no inference of a chain that goes on from it is answered earlier.
        arrival_s: `[R, W]`, when the tensors that cross its ideal are on the next chip, in order.
        before: `[R]`, the label that it goes on from.
        ideal: `[R]`.
        following: `[R]`, the next label of the same ideal and number of chips, or -1.
        first: `[I, C + 1]`, the first of them.
        kept: `[I, C + 1]`, how many there are.
        counts: `[3]`, labels that were made, windows that were weighed, and labels that a beam has
            dropped.
    """

    period_s: Floats
    end_s: Floats
    least_s: Floats
    arrival_s: Floats
    before: Ints
    ideal: Ints
    following: Ints
    first: Ints
    kept: Ints
    counts: Longs


_MADE, _WINDOWS, _DROPPED = range(3)


class _Step(NamedTuple):
    """What a chip may hold next.

    Attributes:
        window: the ideals at both ends.
        cost: of the window.
        nodes: of the window, ascending.
    """

    window: Window
    cost: WindowCost
    nodes: Ints


class _Reach(NamedTuple):
    """What is still of use: it shrinks as chains are found.

    Attributes:
        period_s: below it.
        latency_s: not beyond it.
        best: the best whole chain so far, or -1.
    """

    period_s: float
    latency_s: float
    best: int


@entry_njit
def label_chains(lattice: Lattice, goal: Goal, scratch: PlayScratch) -> tuple[Labels, int, bool]:
    """The best whole chain that a goal allows.

    Returns:
        All labels, the best whole chain among them or -1, and whether everything was looked at, so
        that there is no better one.
    """
    cuts, package, covers = lattice.cuts, lattice.package, lattice.covers
    count, words = cuts.members.shape
    chips, fastest = package.speed.size, package.speed.max()
    labels = _no_labels(count, chips, _widest(cuts))
    labels.period_s[0] = lattice.played.demands.host_s
    labels.first[0, 0], labels.kept[0, 0] = 0, 1
    reach = _Reach(goal.period_s, goal.latency_s, -1)
    windows = window_scratch(lattice.played.demands)
    inside = np.zeros(words, np.uint64)
    nodes = np.empty(lattice.played.demands.nodes.work_s.size, np.int32)
    seen = np.full(count, -1, np.int64)
    queue = np.empty(count, np.int64)
    for i in range(count - 1):
        if not labels.kept[i].any():
            continue
        head, tail = 0, 1
        queue[0] = i
        while head < tail:
            j = queue[head]
            head += 1
            if j != i:
                labels.counts[_WINDOWS] += 1
                if labels.counts[_WINDOWS] > goal.most_windows:
                    return labels, reach.best, False
                for w in range(words):
                    inside[w] = cuts.members[j, w] & ~cuts.members[i, w]
                window = Window(i, j, inside)
                cost = window_cost(
                    lattice.played.demands,
                    cuts,
                    window,
                    windows,
                    labels.counts[_WINDOWS],
                    package.packing,
                )
                if not _may_grow(cost, package.most_room, fastest, reach):
                    continue
                held = nodes[: list_inside(inside, nodes)]
                step = _Step(window, cost, held)
                labels, reach = _extend_all(lattice, goal, labels, reach, scratch, step)
                if labels.counts[_MADE] > goal.most_labels:
                    return labels, reach.best, False
            tail = queue_larger(covers, seen, queue, tail, i, j)
    return labels, reach.best, labels.counts[_DROPPED] == 0


@lean_inner_njit
def queue_larger(
    covers: Covers, seen: Longs, queue: Longs, tail: int, start: int, ideal: int
) -> int:
    """Appends the ideals with one node more that were not met from a start; the new tail."""
    for e in range(covers.ptr[ideal], covers.ptr[ideal + 1]):
        larger = covers.ideals[e]
        if seen[larger] != start:
            seen[larger] = start
            queue[tail] = larger
            tail += 1
    return tail


@inner_njit
def _extend_all(
    lattice: Lattice,
    goal: Goal,
    labels: Labels,
    reach: _Reach,
    scratch: PlayScratch,
    step: _Step,
) -> tuple[Labels, _Reach]:
    """Goes on with every chip that may hold a window; the labels, with room for all, and reach."""
    window = step.window
    if keeps_rule(lattice.played.demands.tensors, lattice.cuts, lattice.triangles, window):
        for k in range(lattice.package.speed.size):
            if labels.kept[window.start, k] and _may_hold(lattice, window, k):
                labels = _with_room(labels, labels.kept[window.start, k])
                reach = _extend(lattice, goal, labels, reach, scratch, step, k)
    return labels, reach


@inner_njit
def _no_labels(count: int, chips: int, width: int) -> Labels:
    """One label, with room for a thousand."""
    room = 1024
    return Labels(
        np.zeros(room),
        np.zeros(room),
        np.zeros(room),
        np.zeros((room, width)),
        np.full(room, -1, np.int32),
        np.zeros(room, np.int32),
        np.full(room, -1, np.int32),
        np.full((count, chips + 1), -1, np.int32),
        np.zeros((count, chips + 1), np.int32),
        np.array([1, 0, 0], np.int64),
    )


@inner_njit
def _with_room(labels: Labels, more: int) -> Labels:
    """The same labels with room for some more."""
    made = labels.counts[_MADE]
    room = labels.period_s.size
    if made + more <= room:
        return labels
    while made + more > room:
        room *= 2
    period_s, end_s, least_s = np.empty(room), np.empty(room), np.empty(room)
    arrival_s = np.empty((room, labels.arrival_s.shape[1]))
    before, ideal = np.empty(room, np.int32), np.empty(room, np.int32)
    following = np.empty(room, np.int32)
    for k in range(made):
        period_s[k], end_s[k] = labels.period_s[k], labels.end_s[k]
        least_s[k], before[k] = labels.least_s[k], labels.before[k]
        ideal[k], following[k] = labels.ideal[k], labels.following[k]
        for t in range(arrival_s.shape[1]):
            arrival_s[k, t] = labels.arrival_s[k, t]
    return Labels(
        period_s, end_s, least_s, arrival_s, before, ideal, following,
        labels.first, labels.kept, labels.counts,
    )  # fmt: skip


@lean_inner_njit
def _widest(cuts: IdealCrossings) -> int:
    """The most tensors that cross an ideal, at least 1."""
    most = 1
    for i in range(cuts.members.shape[0]):
        most = max(most, int(cuts.crossing_ptr[i + 1] - cuts.crossing_ptr[i]))
    return most


@lean_inner_njit
def list_inside(inside: Words, nodes: Ints) -> int:
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


@lean_inner_njit
def _may_grow(cost: WindowCost, most_room: float, fastest: float, reach: _Reach) -> bool:
    """Whether a window or a larger one can be part of a chain; work and weights only grow."""
    most_s = min(reach.period_s, reach.latency_s)
    return cost.weight_room <= most_room and cost.seconds <= most_s * fastest * (1.0 + SLACK)


@lean_inner_njit
def _may_hold(lattice: Lattice, window: Window, chip: int) -> bool:
    """Whether all that is pinned in a window is pinned to a chip."""
    i, j, chips = window.start, window.end, lattice.package.speed.size
    own = lattice.pinned[j, chip] - lattice.pinned[i, chip]
    return bool(lattice.pinned[j, chips] - lattice.pinned[i, chips] == own)


@lean_inner_njit
def _extend(
    lattice: Lattice,
    goal: Goal,
    labels: Labels,
    reach: _Reach,
    scratch: PlayScratch,
    step: _Step,
    k: int,
) -> _Reach:
    """Goes on from all labels at the start of a window with chip k; there is room for as many."""
    package, cuts, cost = lattice.package, lattice.cuts, step.cost
    i, j = step.window.start, step.window.end
    window_s = window_period(package, cost, k)
    if not window_s < reach.period_s or (k + 1 == package.speed.size and not _is_whole(cuts, j)):
        return reach
    streamed = streamed_weights(
        cost.room,
        cost.weight_room,
        cost.largest_weight,
        package.sram_room[k],
        package.stream_bytes_per_s > 0.0,
        package.stream_buffers,
    )
    whole = _is_whole(cuts, j)
    leaving = cuts.crossing[cuts.crossing_ptr[j] : cuts.crossing_ptr[j + 1]]
    streamed_s = max(streamed, 0) * lattice.streamed_s
    # What other chips take of channels that all share is left out, which makes no chain slower.
    given = Handover(k, step.nodes, leaving, leaving[:0], streamed_s, (0.0, 0.0))
    old = labels.first[i, k]
    while old >= 0:
        at, old = old, labels.following[old]
        period_s = float(max(labels.period_s[at], window_s))
        if not period_s < reach.period_s or labels.least_s[at] > reach.latency_s:
            continue
        for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
            scratch.arrival_s[cuts.crossing[e]] = labels.arrival_s[at, e - cuts.crossing_ptr[i]]
        played = lattice.played
        end_s = play_chip(
            played.demands, played.reads, played.rates, given, played.entering, scratch
        )
        new = labels.counts[_MADE]
        _fill(lattice, labels, new, j, float(max(end_s, labels.end_s[at])), period_s, scratch)
        labels.before[new] = at
        if labels.least_s[new] > reach.latency_s or _is_dominated(lattice, labels, new, k + 1):
            continue
        if whole:
            labels.counts[_MADE] += 1
            if goal.least_latency:
                reach = _Reach(reach.period_s, float(labels.end_s[new] * (1.0 - LEAST_GAIN)), new)
            else:
                reach = _Reach(period_s, reach.latency_s, new)
        elif _finds_room(goal, labels, new, k + 1):
            labels.following[new] = labels.first[j, k + 1]
            labels.first[j, k + 1] = new
            labels.kept[j, k + 1] += 1
            labels.counts[_MADE] += 1
    return reach


@lean_inner_njit
def _is_whole(cuts: IdealCrossings, ideal: int) -> bool:
    return bool(ideal == cuts.members.shape[0] - 1)


@lean_inner_njit
def _fill(
    lattice: Lattice,
    labels: Labels,
    new: int,
    ideal: int,
    end_s: float,
    period_s: float,
    scratch: PlayScratch,
) -> None:
    """Fills in a label at an ideal after a play."""
    cuts = lattice.cuts
    labels.ideal[new], labels.period_s[new], labels.end_s[new] = ideal, period_s, end_s
    least_s, begin = end_s, cuts.crossing_ptr[ideal]
    for e in range(begin, cuts.crossing_ptr[ideal + 1]):
        arrival_s = scratch.done_s[cuts.crossing[e]]
        labels.arrival_s[new, e - begin] = arrival_s
        least_s = max(least_s, arrival_s + lattice.beyond_s[e])
    labels.least_s[new] = least_s * (1.0 - SLACK)


@lean_inner_njit
def _is_dominated(lattice: Lattice, labels: Labels, new: int, chips: int) -> bool:
    """Whether a label with no more chips is nowhere larger; takes those off that the new one is."""
    ideal = int(labels.ideal[new])
    width = int(lattice.cuts.crossing_ptr[ideal + 1] - lattice.cuts.crossing_ptr[ideal])
    fewest = 1 if lattice.package.alike else chips
    for c in range(fewest, chips + 1):
        old = int(labels.first[ideal, c])
        while old >= 0:
            if _nowhere_larger(labels, old, new, width):
                return True
            old = int(labels.following[old])
    previous, old = -1, int(labels.first[ideal, chips])
    while old >= 0:
        following = int(labels.following[old])
        if _nowhere_larger(labels, new, old, width):
            if previous < 0:
                labels.first[ideal, chips] = following
            else:
                labels.following[previous] = following
            labels.kept[ideal, chips] -= 1
        else:
            previous = old
        old = following
    return False


@lean_inner_njit
def _nowhere_larger(labels: Labels, one: int, other: int, width: int) -> bool:
    if labels.period_s[one] > labels.period_s[other] or labels.end_s[one] > labels.end_s[other]:
        return False
    for t in range(width):  # noqa: SIM110 - compiled code has no generators
        if labels.arrival_s[one, t] > labels.arrival_s[other, t]:
            return False
    return True


@lean_inner_njit
def _finds_room(goal: Goal, labels: Labels, new: int, chips: int) -> bool:
    """Whether a label is kept: in a beam that is full, the one that promises least goes."""
    ideal = labels.ideal[new]
    if goal.beam == 0 or labels.kept[ideal, chips] < goal.beam:
        return True
    labels.counts[_DROPPED] += 1
    worst, before_worst, previous, old = new, -1, -1, labels.first[ideal, chips]
    while old >= 0:
        if labels.least_s[old] > labels.least_s[worst]:
            worst, before_worst = old, previous
        previous, old = old, labels.following[old]
    if worst == new:
        return False
    if before_worst < 0:
        labels.first[ideal, chips] = labels.following[worst]
    else:
        labels.following[before_worst] = labels.following[worst]
    labels.kept[ideal, chips] -= 1
    return True
