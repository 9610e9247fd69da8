"""When one inference is answered by an otherwise empty package, for any placement on a ring."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import Bools, Ints, PartitionProblem
from mcm_compiler.placements.ring_routes import COLLECTED, FROM_HOST
from mcm_passes.families.ring.analytic.fast_model import RingEvaluation, evaluate, refuse_machines
from mcm_passes.families.ring.loads.chip_demands import ChipDemands, chip_demands
from mcm_passes.families.ring.objectives.chip_play import (
    Handover,
    PlayRates,
    PlayScratch,
    play_chip,
    play_scratch,
)
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph

NOTHING = np.empty(0, np.int32)


class PlayedProblem(NamedTuple):
    """A problem as plays take it.

    Attributes:
        demands: of its nodes.
        reads: `[n]` rows of the tensors that each node reads.
        entering: `[T]`, graph inputs that travel along the ring.
        rates: of its package.
    """

    demands: ChipDemands
    reads: Rows
    entering: Bools
    rates: PlayRates

    @classmethod
    def of(cls, problem: PartitionProblem, graph: RuleGraph) -> PlayedProblem:
        """The problem whose rule graph is `graph`."""
        demands = chip_demands(problem, graph.units)
        tensors, limits = demands.tensors, problem.limits
        reads = distinct_rows(tensors.readers.entries, tensors.readers.owners, graph.num_nodes)
        rates = PlayRates(
            speed=problem.chip_speed,
            link_bytes_per_s=limits.link_bytes_per_s,
            hop_latency_s=limits.hop_latency_s,
            host_bytes_per_s=limits.host_bytes_per_s,
            host_root_bytes_per_s=limits.host_root_bytes_per_s,
            ends=limits.host_io == "ends",
        )
        return cls(demands, reads, tensors.kind & FROM_HOST > 0, rates)


class RingLatency:
    """An `Evaluate` of one problem: seconds until one inference is answered.

    Args:
        problem: on a ring.

    Raises:
        ValueError: for a problem on another machine.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        refuse_machines(problem)
        self._problem = problem
        self._graph = rule_graph(problem)
        self._played = PlayedProblem.of(problem, self._graph)
        self._scratch: PlayScratch = play_scratch(self._played.demands)

    def __call__(self, chip_of: Ints) -> float:
        """Of one placement `[N]`; infinite where it breaks a rule."""
        evaluation = evaluate(self._problem, chip_of)
        return self.of_valid(evaluation) if evaluation.valid else float("inf")

    def of_valid(self, evaluation: RingEvaluation) -> float:
        """Of a placement that breaks no rule, or none but the estimate of memory."""
        problem, played = self._problem, self._played
        chip_of = evaluation.chip_of[self._graph.units]
        if not chip_of.size:
            return 0.0
        used = int(chip_of.max()) + 1
        nodes = np.argsort(chip_of, kind="stable").astype(np.int32)
        node_ptr = np.searchsorted(chip_of[nodes], np.arange(used + 1))
        crossing = _crossings(played.demands, chip_of, used)
        limits = problem.limits
        stream_rate = min(limits.stream_bytes_per_s or np.inf, limits.stream_root_bytes_per_s)
        streamed_s = evaluation.stream_busy_s * (limits.stream_bytes_per_s / stream_rate)
        end_s = 0.0
        for chip in range(used):
            given = Handover(
                chip,
                nodes[node_ptr[chip] : node_ptr[chip + 1]],
                crossing[chip] if chip < used - 1 else NOTHING,
                crossing[used - 1] if chip == used - 1 else NOTHING,
                float(streamed_s[chip]) if limits.stream_bytes_per_s else 0.0,
            )
            played_s = play_chip(
                played.demands, played.reads, played.rates, given, played.entering, self._scratch
            )
            end_s = max(end_s, played_s)
            for t in given.leaving:
                self._scratch.arrival_s[t] = self._scratch.done_s[t]
        return end_s


def _crossings(demands: ChipDemands, chip_of: Ints, used: int) -> list[Ints]:
    """`[used]` lists of tensors, ascending: what crosses each link, and what exits at the end."""
    tensors = demands.tensors
    source = np.where(tensors.producer >= 0, chip_of[tensors.producer], 0)
    last = source.copy()
    np.maximum.at(last, tensors.readers.owners, chip_of[tensors.readers.entries])
    collected = tensors.kind & COLLECTED > 0
    last[collected] = used - 1
    length = last - source
    tensor = np.repeat(np.arange(source.size), length)
    begins = np.repeat(np.cumsum(length) - length, length)
    link = np.repeat(source, length) + np.arange(tensor.size) - begins
    order = np.argsort(link, kind="stable")
    ptr = np.searchsorted(link[order], np.arange(used))
    rows = [tensor[order][ptr[c] : ptr[c + 1]].astype(np.int32) for c in range(used - 1)]
    return [*rows, np.flatnonzero(collected).astype(np.int32)]
