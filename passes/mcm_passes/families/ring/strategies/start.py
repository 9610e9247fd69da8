"""The partition that searches start from."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints
from mcm_passes.families.ring.contiguous.contiguous_dp import dp_outcome
from mcm_passes.families.ring.moves.walks import Walker
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.machine.device_order import first_line, first_order
from mcm_passes.mapping.models import adapted
from mcm_passes.mapping.models import evaluate as evaluation_of
from mcm_passes.mapping.search.named import answer_of
from mcm_passes.mapping.search.search import Search
from mcm_passes.mapping.solving.planned_memory import searches_cost_minutes

KNOWN = "known"
"""As a start: the partitions that the caller already knows."""

DRAWS = 1024
"""Random partitions that are tried where cuts of an order do not fit."""

BATCH = 64

REPAIR_STEPS = 20
"""Steps for each unit from a draw to a placement that fits."""

NOTHING_DRAWN = "no partition keeps the pins and the rules"

COMPLETION_S = 5.0
"""Deterministic seconds of CP-SAT where no draw fits either."""


def find_start(search: Search, rng: np.random.Generator) -> str:
    """Gives `search` its first partition: of `dp`, known, at random, or by CP-SAT.

    Returns:
        Why none was found; empty where one was.
    """
    if not search.left:
        return "the budget allows no evaluation"
    budget = search.share(search.left)
    outcome = dp_outcome(search.problem, search.evaluate, rng, budget)
    search.spend(outcome.evaluations)
    # Another member of a portfolio may have got further than cuts of an order.
    for found in budget.known if outcome.chip_of is None else (outcome.chip_of,):
        search.offer(found, search.period_of(found))
        if search.best is not None:
            return ""
    if searches_cost_minutes(search.problem):
        return outcome.reason
    # Imported late: most problems have an answer by now.
    from mcm_passes.families.ring.solver.problem_sampling import ProblemSampler

    sampler, order = ProblemSampler.of(first_line(search.problem)), first_order(search.problem)
    for _ in range(DRAWS // BATCH):
        if not (count := min(BATCH, search.left)):
            break
        rows = sampler.sample(rng, count)
        rows = rows[rows[:, 0] >= 0]
        if not len(rows):
            break
        search.periods(order.devices(rows))
        if search.best is None and not search.problem.on_ring:
            _repair(search, order.devices(rows[0]), rng)
        if search.best is not None:
            return ""
    return ask_authority(search, outcome.reason) if search.left else outcome.reason


def named_start(search: Search, name: str, rng: np.random.Generator) -> str:
    """Gives `search` its first partitions: those that are known, or a strategy's answer.

    Args:
        search: the search.
        name: the text of a strategy, or `known`: then that of `dp` where nothing is known.
        rng: source of randomness.

    Returns:
        As `find_start`.
    """
    if name == KNOWN:
        search.recall(*search.share(search.left).known)
    if search.best is not None:
        return ""
    if name in ("dp", KNOWN):
        return find_start(search, rng)
    part = search.share(search.left, time_share=0.5)
    strategy = adapted(search.problem, name)
    outcome = answer_of(name, strategy, search.problem, search.evaluate, rng, part)
    # What it spent is not taken from here: the two count their work otherwise.
    search.recall(outcome.chip_of, *outcome.runners_up)
    return outcome.reason


def _repair(search: Search, device_of: Ints, rng: np.random.Generator) -> None:
    """Walks from a placement that lacks memory or routes to one that is valid."""
    walker = Walker(search.problem, evaluation_of(search.problem, device_of).period_s)
    walk = walker.walk(device_of, streams(rng, 1))
    walker.advance(walk, REPAIR_STEPS * search.problem.num_units)
    search.spend(REPAIR_STEPS)
    if np.isfinite(walk.best_s[0]):
        search.period(walker.best(walk))


def ask_authority(search: Search, reason: str) -> str:
    """Gives `search` a partition by CP-SAT, near an even split, where no draw fits.

    Returns:
        Why none was found: `reason`, or that there is none; empty where one was.
    """
    problem = first_line(search.problem)
    share = np.cumsum(problem.compute_s) / max(float(problem.compute_s.sum()), 1e-300)
    even = np.minimum(share * problem.num_chips, problem.num_chips - 1).astype(np.int32)
    from mcm_passes.families.ring.placement_constraints.nearest import nearest_partition
    from mcm_passes.families.ring.solver.problem_sampling import fill_clonable

    answer = nearest_partition(problem, even, None, COMPLETION_S)
    if answer.chip_of is not None:
        fill_clonable(problem, answer.chip_of[None])
        search.period(first_order(search.problem).devices(answer.chip_of))
    elif answer.proven and search.problem.on_ring:
        return "CP-SAT proves that no partition keeps the pins, the rules and the memory"
    return "" if search.best is not None else reason
