"""The partition that searches start from."""

from __future__ import annotations

import numpy as np

from mcm_compiler.partition import Evaluate
from mcm_passes.partitioning.contiguous_dp import ContiguousDp
from mcm_passes.partitioning.greedy import Greedy
from mcm_passes.strategies.search import Search
from mcm_passes.strategies.unit_sampler import UnitSampler

DRAWS = 1024
"""Random partitions that are tried where cuts of an order do not fit."""

BATCH = 64


def find_start(search: Search, evaluate: Evaluate, rng: np.random.Generator) -> str:
    """Gives `search` its first partitions: those of `dp`, of `greedy`, or drawn at random.

    Returns:
        Why none was found; empty where one was.
    """
    reason = "the budget allows no evaluation"
    for strategy in (ContiguousDp(), Greedy()):
        if not search.left:
            break
        outcome = strategy.solve(search.problem, evaluate, rng, search.share(search.left))
        search.spend(outcome.evaluations)
        if outcome.chip_of is not None:
            search.offer(outcome.chip_of, search.period_of(outcome.chip_of))
            return ""
        reason = reason if isinstance(strategy, Greedy) else outcome.reason
    sampler = UnitSampler(search.problem)
    for _ in range(DRAWS // BATCH):
        if not (count := min(BATCH, search.left)):
            break
        rows = sampler.draw(rng, count)
        if rows is None:
            break
        search.periods(rows)
        if search.best is not None:
            return ""
    return reason
