"""The best chain of order ideals under two criteria, and what follows where there is none."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, PartitionProblem
from mcm_passes.families.ring.exact.ideal_dp import ChainOptimum, IdealLattice
from mcm_passes.families.ring.exact.triangle_readings import TriangleReading
from mcm_passes.families.ring.loads.crossings import IdealCrossings, holds
from mcm_passes.families.ring.objectives.chip_play import PlayedProblem, play_scratch
from mcm_passes.families.ring.objectives.label_chain import (
    BEFORE,
    END,
    IDEAL,
    PERIOD,
    Goal,
    Lattice,
    label_chains,
)
from mcm_passes.mapping.problem.order_ideals import OrderIdeals


class LabelLattice(IdealLattice):
    """A problem prepared for chains of its ideals under two criteria."""

    def __init__(self, problem: PartitionProblem, ideals: OrderIdeals) -> None:
        super().__init__(problem, ideals)
        self._played = PlayedProblem.of(self._problem, self._graph)
        self._scratch = play_scratch(self._played.demands)
        tails = tail_s(self._played)
        self._beyond_s = _longest_beyond(self._cuts, self._demands.tensors.readers, tails)

    def merged(self, period_s: float, latency_s: float, most_windows: int) -> tuple[float, bool]:
        """No chain below a period answers earlier than this, with the labels of an ideal merged.

        Args:
            period_s: chains from this period on do not count.
            latency_s: later answers do not count.
            most_windows: gives up beyond so many.

        Returns:
            Seconds, infinite where none answers by `latency_s`, and whether all was looked at.
        """
        goal = Goal(True, period_s, latency_s, most_windows, 1 << 60, 0, merges=True)
        labels, best, complete = label_chains(self._quickest(), goal, self._scratch)
        return (np.inf if best < 0 else float(labels.times_s[best, END])), complete

    def _quickest(self) -> Lattice:
        """The problem without pins where all chips are as fast and as large as the best."""
        chips = self._chips
        speed = np.full_like(chips.speed, chips.speed.max())
        room = np.full_like(chips.sram_room, chips.sram_room.max())
        hops = self._played.rates.link_latency_s
        # The last entry is of no link.
        nearest = np.full_like(hops, hops[:-1].min(initial=np.inf) if hops.size > 1 else 0.0)
        rates = self._played.rates._replace(speed=speed, link_latency_s=nearest)
        return self._lattice("none")._replace(
            played=self._played._replace(rates=rates),
            package=chips._replace(speed=speed, sram_room=room),
            pinned=np.zeros_like(self._pinned),
        )

    def best(self, reading: TriangleReading, goal: Goal) -> ChainOptimum:
        """The best partition that a goal allows, by a reading of the triangle rule."""
        labels, best, complete = label_chains(self._lattice(reading), goal, self._scratch)
        made, windows = int(labels.counts[0]), int(labels.counts[1])
        if best < 0:
            return ChainOptimum(None, np.inf, complete, windows, made)
        chain = [best]
        while labels.links[chain[-1], BEFORE] >= 0:
            chain.append(int(labels.links[chain[-1], BEFORE]))
        chip_of = self._partition(labels.links[chain[::-1], IDEAL].tolist())
        value = labels.times_s[best, END if goal.least_latency else PERIOD]
        return ChainOptimum(chip_of, float(value), complete, windows, made)

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
        )


def tail_s(played: PlayedProblem) -> Floats:
    """`[n]`, the least time from the start of each node to the end of an inference.

    The longest way of ops from it to a result, on the fastest chip, and over the host's channel
    where a result is one of the model's.
    """
    d, rates = played.demands, played.rates
    made_ptr, made = d.nodes.made
    return _tails(
        d.nodes.work_s / float(rates.speed.max()),
        d.nodes.out_bytes / rates.host_bytes_per_s,
        Rows(made_ptr, made),
        d.tensors.readers,
    )


@entry_njit
def _tails(work_s: Floats, out_s: Floats, made: Rows, readers: Rows) -> Floats:
    tails = np.zeros(work_s.size)
    for v in range(work_s.size - 1, -1, -1):
        longest = out_s[v]
        for e in range(made.ptr[v], made.ptr[v + 1]):
            t = made.entries[e]
            for r in range(readers.ptr[t], readers.ptr[t + 1]):
                longest = max(longest, tails[readers.entries[r]])
        tails[v] = work_s[v] + longest
    return tails


@entry_njit
def _longest_beyond(cuts: IdealCrossings, readers: Rows, tails: Floats) -> Floats:
    """As `Lattice.beyond_s`."""
    beyond = np.zeros(cuts.crossing.size)
    for i in range(cuts.members.shape[0]):
        for e in range(cuts.crossing_ptr[i], cuts.crossing_ptr[i + 1]):
            t = cuts.crossing[e]
            longest = 0.0
            for r in range(readers.ptr[t], readers.ptr[t + 1]):
                if not holds(cuts.members, i, readers.entries[r]):
                    longest = max(longest, tails[readers.entries[r]])
            beyond[e] = longest
    return beyond
