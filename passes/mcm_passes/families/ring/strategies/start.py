"""The partition that searches start from."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Evaluate
from mcm_passes.families.ring.contiguous.contiguous_dp import dp_outcome
from mcm_passes.families.ring.contiguous.greedy import Greedy
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

KNOWN = "known"
"""As a start: the partitions that the caller already knows."""

DRAWS = 1024
"""Random partitions that are tried where cuts of an order do not fit."""

BATCH = 64

NOTHING_DRAWN = "no partition keeps the pins and the rules"

COMPLETION_S = 5.0
"""Deterministic seconds of CP-SAT where no draw fits either."""


def find_start(search: Search, evaluate: Evaluate, rng: np.random.Generator) -> str:
    """Gives `search` its first partition: of `dp`, known, of `greedy`, at random, or by CP-SAT.

    Returns:
        Why none was found; empty where one was.
    """
    reason = "the budget allows no evaluation"
    for solve in (dp_outcome, Greedy().solve):
        if not search.left:
            break
        budget = search.share(search.left)
        outcome = solve(search.problem, evaluate, rng, budget)
        search.spend(outcome.evaluations)
        found = outcome.chip_of
        if found is None and budget.known:
            # Another member of a portfolio has got further than cuts of an order.
            found = budget.known[0]
        if found is not None:
            search.offer(found, search.period_of(found))
            return ""
        reason = outcome.reason if solve is dp_outcome else reason
    # Imported late: most problems have an answer by now.
    from mcm_passes.families.ring.solver.problem_sampling import ProblemSampler

    sampler = ProblemSampler.of(search.problem)
    for _ in range(DRAWS // BATCH):
        if not (count := min(BATCH, search.left)):
            break
        rows = sampler.sample(rng, count)
        rows = rows[rows[:, 0] >= 0]
        if not len(rows):
            break
        search.periods(rows)
        if search.best is not None:
            return ""
    return ask_authority(search, reason) if search.left else reason


def named_start(search: Search, name: str, evaluate: Evaluate, rng: np.random.Generator) -> str:
    """Gives `search` its first partitions: those that are known, or a strategy's answer.

    Args:
        search: the search.
        name: the text of a strategy, or `known`: then that of `dp` where nothing is known.
        evaluate: of the problem.
        rng: source of randomness.

    Returns:
        Why none was found; empty where one was.
    """
    if name == KNOWN:
        for row in search.share(search.left).known:
            search.offer(row, search.period_of(row))
    if search.best is not None:
        return ""
    if name in ("dp", KNOWN):
        return find_start(search, evaluate, rng)
    part = search.share(search.left, time_share=0.5)
    outcome = answer_of(name, strategy_of(name), search.problem, evaluate, rng, part)
    # What it spent is not taken from here: the two count their work otherwise.
    for row in (outcome.chip_of, *outcome.runners_up):
        if row is not None:
            search.offer(row, search.period_of(row))
    return outcome.reason


def ask_authority(search: Search, reason: str) -> str:
    """Gives `search` a partition by CP-SAT, near an even split, where no draw fits.

    Returns:
        Why none was found: `reason`, or that there is none; empty where one was.
    """
    problem = search.problem
    share = np.cumsum(problem.compute_s) / max(float(problem.compute_s.sum()), 1e-300)
    even = np.minimum(share * problem.num_chips, problem.num_chips - 1).astype(np.int32)
    from mcm_passes.families.ring.placement_constraints.nearest import nearest_partition
    from mcm_passes.families.ring.solver.problem_sampling import fill_clonable

    answer = nearest_partition(problem, even, None, COMPLETION_S)
    if answer.chip_of is not None:
        fill_clonable(problem, answer.chip_of[None])
        search.period(answer.chip_of)
    elif answer.proven:
        return "CP-SAT proves that no partition keeps the pins, the rules and the memory"
    return "" if search.best is not None else reason
