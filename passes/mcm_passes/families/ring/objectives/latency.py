"""When one inference is answered by an otherwise empty package, for any placement on a ring."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Bools, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import COLLECTED
from mcm_passes.families.ring.objectives import chip_play
from mcm_passes.mapping.machine.evaluation import PlacementCost, evaluate
from mcm_passes.mapping.problem.rule_graph import rule_graph

NOTHING = np.empty(0, np.int32)


class RingLatency:
    """An `Evaluate` of one problem: seconds until one inference is answered.

    Args:
        problem: on a ring.

    Raises:
        ValueError: for a problem on another machine.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        if not problem.on_ring:
            raise ValueError(f"the problem is placed on a machine of family {problem.family}")
        self._problem = problem
        self._graph = rule_graph(problem)
        self._played = chip_play.PlayedProblem.of(problem, self._graph)
        self._scratch: chip_play.PlayScratch = chip_play.play_scratch(self._played.demands)

    def __call__(self, chip_of: Ints) -> float:
        """Of one placement `[N]`; infinite where it breaks a rule."""
        evaluation = evaluate(self._problem, chip_of)
        return self.of_valid(evaluation) if evaluation.valid else float("inf")

    def of_valid(self, evaluation: PlacementCost) -> float:
        """Of a placement that breaks no rule, or none but the estimate of memory."""
        problem, played = self._problem, self._played
        chip_of = evaluation.chip_of[self._graph.units]
        if not chip_of.size:
            return 0.0
        end, used = played.last_chip, int(chip_of.max()) + 1
        source, to, entering, exiting = self._ways(chip_of)
        chips = max(used, end + 1 if exiting.size else 0)
        played = played._replace(entering=entering)
        limits, scratch = problem.limits, self._scratch
        stream_s = evaluation.streamed_bytes / (limits.stream_bytes_per_s or np.inf)
        # Off-package memory sends what a chip streams behind what chips before it do.
        shared = np.cumsum(stream_s) * (limits.stream_bytes_per_s / limits.stream_root_bytes_per_s)
        streamed_s = np.where(stream_s > 0.0, np.maximum(stream_s, shared), 0.0)
        end_s, scratch.clock_s[:] = 0.0, 0.0
        for chip in range(chips):
            if chip in (0, end):
                # The host sends to either end by itself.
                scratch.arrival_s[played.demands.tensors.producer < 0] = -1.0
            leaving = np.flatnonzero((source <= chip) & (chip < to)).astype(np.int32)
            played_s = chip_play.play_chip(
                played,
                chip,
                np.flatnonzero(chip_of == chip).astype(np.int32),
                leaving,
                exiting if chip == end else NOTHING,
                float(streamed_s[chip]) if chip < used else 0.0,
                scratch,
            )
            end_s = max(end_s, played_s)
            scratch.arrival_s[leaving] = scratch.done_s[leaving]
        return end_s

    def _ways(self, chip_of: Ints) -> tuple[Longs, Longs, Bools, Ints]:
        """Where tensors get to; fills in the last chip that reads each, or that makes it.

        Returns:
            `[T]` each: the chip that makes a tensor, or that it enters at; the last chip that it
            comes to over links; and which graph inputs enter at the first chip. Then the tensors
            that cross links to leave at the last chip, ascending.
        """
        tensors, end = self._played.demands.tensors, self._played.last_chip
        made = tensors.producer >= 0
        source = np.where(made, chip_of[tensors.producer], 0).astype(np.int64)
        reader_chip = chip_of[tensors.readers.entries]
        to, last = source.copy(), self._scratch.last
        last[:] = source
        np.maximum.at(last, tensors.readers.owners, reader_chip)
        # The host sends the last chip what that reads.
        inner = made[tensors.readers.owners] | (reader_chip != end)
        np.maximum.at(to, tensors.readers.owners[inner], reader_chip[inner])
        entering = np.zeros(made.size, np.bool_)
        entering[tensors.readers.owners[inner]] = True
        collected = (tensors.kind & COLLECTED > 0) & (source > 0) & (source < end)
        to[collected] = end
        exiting = np.flatnonzero(collected).astype(np.int32)
        return source, to, entering & ~made, exiting
