"""Rewards of partitions: the closed interface behind which any evaluator may stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints
from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods

LEAST_S = 1e-30
"""Seconds that the period of a baseline has at least, and that any period counts as at least."""


class Rewards(Protocol):
    """Evaluates partitions: an analytic model, the simulator, or hardware."""

    @property
    def baseline_s(self) -> float:
        """Period that counts as a reward of 1."""
        ...

    def evaluate(self, partitions: Ints) -> Floats:
        """`[B]`, throughput of each of `partitions[B, N]` over that of the baseline.

        0 where a partition does not run.
        """
        ...


@dataclass(frozen=True, eq=False)
class FastRewards:
    """Rewards of the fast model (MCM, section 5.1: the analytic cost model).

    Attributes:
        periods: the model.
        baseline_s: period of the greedy heuristic.
    """

    periods: FastPeriods
    baseline_s: float

    def evaluate(self, partitions: Ints) -> Floats:
        return relative_throughput(self.periods.periods(partitions), self.baseline_s)


def rewards_of(evaluator: Rewards, partitions: Ints) -> Floats:
    """`[B]`, rewards of `partitions[B, N]`; 0 for rows of -1, which the evaluator never sees.

    Raises:
        CompileError: MCM-L004 if a reward is not a number from 0 up.
    """
    rewards = np.zeros(len(partitions))
    found = partitions[:, 0] >= 0
    if found.any():
        rewards[found] = evaluator.evaluate(partitions[found])
    wrong = ~(np.isfinite(rewards) & (rewards >= 0))
    if wrong.any():
        raise CompileError.of(
            "MCM-L004",
            f"{wrong.sum()} of {len(rewards)} rewards are no numbers from 0 up, the first "
            f"is {rewards[wrong][0]}",
            at="the evaluator of partitions",
        )
    return rewards


def relative_throughput(period_s: Floats, baseline_s: float) -> Floats:
    """Rewards of periods; what does not run, with an infinite period, earns nothing.

    Periods below `LEAST_S` count as that, so that one of 0 s earns a finite reward.
    """
    return baseline_s / np.maximum(period_s, LEAST_S)
