"""Levels of effort: which strategy, and how much it may spend."""

from __future__ import annotations

from mcm_compiler.partition import PartitionProblem

STRATEGY_OF_LEVEL = (
    "greedy",
    "dp",
    "portfolio",
    'portfolio{members="dp;cpsat{ideals=500000};local_search;multilevel;'
    "multilevel{heat=0.1,tries=24,patience=2};lns{start=known};corrected;judge_search;"
    "rl-finetune{start=known,reward=judge,samples=600,effort_s=20};"
    'rl-finetune{reward=judge,samples=600,effort_s=20}",slack=1}',
)

STRATEGY_FOR_MACHINES = "stages"
"""The strategy of all levels where devices are no ring; it spends what the level allows."""

EFFORT_S = (1.0, 1.0, 5.0, 60.0)
"""Deterministic seconds of exact solvers, by level."""

FURTHER_OF_LEVEL = (0, 0, 1, 1)
"""Further numbers of pipelines that may be searched in full besides the best, by level."""

_UNIT_EVALUATIONS = (10**8, 10**8, 2 * 10**7, 6 * 10**7)
"""Units that may be looked at, over all evaluations, by level; one takes some 40 ns."""

_MOST_EVALUATIONS = (10_000, 10_000, 40_000, 200_000)
_LEAST_EVALUATIONS = 200


def evaluations_of_level(level: int, problem: PartitionProblem) -> int:
    """Partitions that a strategy may evaluate at a level, so that the time hardly depends on N."""
    affordable = _UNIT_EVALUATIONS[level] // max(problem.num_units, 1)
    return max(min(affordable, _MOST_EVALUATIONS[level]), _LEAST_EVALUATIONS)
