"""The compiler heuristic that the paper measures against: one walk, cut by cumulative cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_passes.families.ring.contiguous.contiguous_kernels import greedy_cuts
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.mapping.problem.topological_orders import topological_orders


def chips_from_cuts(problem: PartitionProblem, order: Ints, cuts: np.ndarray) -> Ints:
    """`[N]`, the partition whose chip k holds positions `[cuts[k], cuts[k + 1])` of `order`."""
    chip_of = np.zeros(problem.num_units, dtype=np.int32)
    chip_of[order] = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    return chip_of


@dataclass(frozen=True)
class Greedy:
    """Greedy by topological order and cumulative cost, O(N) (MCM, section 5.1).

    A chip closes when it holds its share of the work that is left, or when the next unit would
    overflow its memory. The paper's heuristic is not spelled out; the second rule is ours.
    """

    name: ClassVar[str] = "greedy"
    summary: ClassVar[str] = "one walk in topological order, cut by cumulative cost"

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Walks once; nothing is random, and one evaluation is spent."""
        del rng
        order = topological_orders(problem, 1)[0].units
        cuts, stop = greedy_cuts(windows_along(problem, order))
        if stop < order.size and problem.streams:
            # Space is short, so let chips lack as much as they may stream.
            cuts, stop = greedy_cuts(windows_along(problem, order, stream_share=1.0))
        if stop < order.size:
            unit = int(order[stop])
            pin = int(problem.pinned_chip[unit])
            why = f", which is pinned to chip {pin}" if pin >= 0 else ""
            return Outcome(
                None,
                0,
                f"greedy stops at unit {quote(problem.names[unit])}{why}: it does not fit on "
                f"chip {len(cuts) - 1}, and no cut is allowed before it",
            )
        chip_of = chips_from_cuts(problem, order, cuts)
        period_s = evaluate(chip_of)
        if not np.isfinite(period_s):
            return Outcome(None, 1, "the cuts of greedy break a rule or overflow a chip")
        budget.monitor.best(chip_of, period_s)
        return Outcome(chip_of, 1)
