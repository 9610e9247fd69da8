"""The best chain of order ideals under two criteria, and what follows where there is none."""

from __future__ import annotations

import operator
from functools import cached_property
from itertools import accumulate
from typing import Self

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_passes.families.ring.exact.ideal_chain import TriangleReading
from mcm_passes.families.ring.exact.ideals import ChainOptimum, IdealLattice
from mcm_passes.families.ring.loads.window_costs import IdealCrossings, holds
from mcm_passes.families.ring.objectives.chip_play import PlayedProblem, play_scratch
from mcm_passes.families.ring.objectives.label_chain import (
    BEFORE,
    BEST,
    END,
    IDEAL,
    MADE,
    PERIOD,
    TIE,
    WINDOWS,
    Goal,
    Labels,
    Lattice,
    Prices,
    label_chains,
)
from mcm_passes.families.ring.objectives.ring_objectives import joule_problem
from mcm_passes.mapping.loads.chip_demands import ChipDemands
from mcm_passes.mapping.problem.order_ideals import OrderIdeals
from mcm_passes.mapping.problem.rule_graph import rule_graph, words_of


class LabelLattice(IdealLattice):
    """A problem prepared for chains of its ideals under two criteria."""

    def __init__(self, problem: PartitionProblem, ideals: OrderIdeals) -> None:
        super().__init__(problem, ideals)
        self._given = problem
        self._played = PlayedProblem.of(self._problem, self._graph)
        self._scratch = play_scratch(self._played.demands)
        tails = tail_s(self._played)
        self._beyond_s = _longest_beyond(self._cuts, self._demands.tensors.readers, tails)

    @classmethod
    def along(cls, problem: PartitionProblem, units: Ints) -> Self:
        """The lattice of the ideals that are beginnings of an order.

        Args:
            problem: on a ring.
            units: `[n]`, the units of the nodes of its rule graph in that order.
        """
        n = units.size
        nodes = rule_graph(problem).node_of(problem.num_units)[units]
        sets = accumulate((1 << node for node in nodes.tolist()), operator.or_, initial=0)
        ptr = np.minimum(np.arange(n + 2), n)
        following = np.arange(1, n + 1, dtype=np.int32)
        return cls(
            problem, OrderIdeals(words_of(list(sets), n), ptr, following, nodes.astype(np.int32))
        )

    def merged(self, period_s: float, latency_s: float, most_windows: int) -> tuple[float, bool]:
        """No chain below a period answers earlier than this, with the labels of an ideal merged.

        Args:
            period_s: chains from this period on do not count.
            latency_s: later answers do not count.
            most_windows: gives up beyond this many.

        Returns:
            Seconds, infinite where none answers by `latency_s`, and whether all was looked at.
        """
        goal = Goal(True, period_s, latency_s, most_windows, 1 << 60, 0, merges=True)
        labels, complete = label_chains(self._quickest(), goal, self._scratch)
        best = labels.counts[BEST]
        return (np.inf if best < 0 else float(labels.times_s[best, END])), complete

    def _quickest(self) -> Lattice:
        """The problem without pins where all chips are as fast and as large as the best."""
        chips = self._chips
        speed = np.full_like(chips.speed, chips.speed.max())
        room = np.full_like(chips.sram_room, chips.sram_room.max())
        hops = self._played.link_latency_s
        # The last entry is of no link.
        nearest = np.full_like(hops, hops[:-1].min(initial=np.inf) if hops.size > 1 else 0.0)
        return self._lattice("none")._replace(
            played=self._played._replace(speed=speed, link_latency_s=nearest),
            package=chips._replace(speed=speed, sram_room=room),
            pinned=np.zeros_like(self._pinned),
        )

    def best(self, reading: TriangleReading, goal: Goal) -> ChainOptimum:
        """The best partition that a goal allows, by a reading of the triangle rule."""
        labels, complete = label_chains(self._lattice(reading), goal, self._scratch)
        made, windows, best = labels.counts[[MADE, WINDOWS, BEST]].tolist()
        if goal.energy:
            best = self._least(labels)
        if best < 0:
            return ChainOptimum(None, np.inf, complete, windows, made)
        chain = [best]
        while labels.links[chain[-1], BEFORE] >= 0:
            chain.append(int(labels.links[chain[-1], BEFORE]))
        chip_of = self._partition(labels.links[chain[::-1], IDEAL].tolist())
        value = labels.times_s[best, PERIOD if not (goal.least_latency or goal.energy) else END]
        return ChainOptimum(chip_of, float(value), complete, windows, made)

    def _least(self, labels: Labels) -> int:
        """Of the labels at the last ideal that tie in energy, the fastest with the fewest chips."""
        whole = [at for at in labels.first[self.count - 1].tolist() if at >= 0]
        most_j = min((labels.times_s[at, END] for at in whole), default=np.inf) * (1.0 + 2.0 * TIE)
        return next((at for at in whole if labels.times_s[at, END] <= most_j), -1)

    @cached_property
    def _prices(self) -> Prices:
        """The energy of the problem; nothing where it has none."""
        if self._problem.energy is None:
            return Prices(self._demands, self._chips, np.empty(0), np.empty(0), 0.0, 0)
        priced = IdealLattice(joule_problem(self._given), self._ideals)
        joules, package = priced._demands, priced._chips
        host_bytes_per_j = package.host_bytes_per_s
        always_j = 0.0
        if self._given.limits.at_ends:
            # What several chips read may enter once for all of them.
            always_j = int(joules.items.in_bytes.sum()) / host_bytes_per_j
            once = joules.items._replace(in_bytes=np.zeros_like(joules.items.in_bytes))
            joules = joules._replace(items=once)
        beyond = _least_beyond(joules, self._ideals, host_bytes_per_j)
        return Prices(joules, package, *beyond, always_j, int(self._chips.sram_room.max()))

    def _lattice(self, reading: TriangleReading) -> Lattice:
        limits = self._problem.limits
        stream_rate = min(limits.stream_bytes_per_s or np.inf, limits.stream_root_bytes_per_s)
        return Lattice(
            self._played,
            self._cuts,
            self._covers,
            self._pinned,
            self._chips._replace(alike=self._chips.alike and len(set(limits.latencies_s)) < 2),
            self._triangles(reading),
            self._beyond_s,
            limits.buffer_alignment_bytes / stream_rate,
            self._prices,
        )


def tail_s(played: PlayedProblem) -> Floats:
    """`[n]`, the least time from the start of each node to the end of an inference.

    The longest way of ops from it to a result, on the fastest chip, and over the host's channel
    where a result is one of the model's.
    """
    nodes, readers = played.demands.nodes, played.demands.tensors.readers
    work_s = nodes.work_s / float(played.speed.max())
    tails = nodes.out_bytes / played.host_bytes_per_s
    for v in range(work_s.size - 1, -1, -1):
        following = [tails[readers.row(t)] for t in nodes.made.row(v).tolist()]
        tails[v] = work_s[v] + np.concatenate([tails[v : v + 1], *following]).max()
    return tails


@entry_njit
def _longest_beyond(cuts: IdealCrossings, readers: Rows, tails: Floats) -> Floats:
    """As `Lattice.beyond_s`."""
    beyond = np.zeros(cuts.crossing.size)
    for i in range(cuts.members.shape[0]):
        for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
            t = cuts.crossing[e]
            for r in range(readers.ptr[t], readers.ptr[t + 1]):
                if not holds(cuts.members, i, readers.entries[r]):
                    beyond[e] = max(beyond[e], tails[readers.entries[r]])
    return beyond


def _least_beyond(
    d: ChipDemands, ideals: OrderIdeals, host_bytes_per_s: float
) -> tuple[Floats, Floats]:
    """`nodes_j` and `beyond_j` of `Prices`.

    Args:
        d: the demands with joules for seconds.
        ideals: of their nodes.
        host_bytes_per_s: bytes per joule.
    """
    node_j = (d.nodes.work_s + d.nodes.out_bytes / host_bytes_per_s).tolist()
    once_j = d.items.busy_s + d.items.in_bytes / host_bytes_per_s
    nodes_j = np.zeros(ideals.count)
    first, larger, more = (a.tolist() for a in (ideals.cover_ptr, ideals.covers, ideals.cover_node))
    for i in range(ideals.count - 2, -1, -1):
        nodes_j[i] = nodes_j[larger[first[i]]] + node_j[more[first[i]]]
    beyond_j = nodes_j.copy()
    for item in np.flatnonzero(once_j > 0.0).tolist():
        bits = words_of([sum({1 << v for v in d.items.users.row(item).tolist()})], len(node_j))[0]
        at = np.flatnonzero(bits)
        beyond_j += once_j[item] * (bits[at] & ~ideals.members[:, at]).any(axis=1)
    return nodes_j, beyond_j
