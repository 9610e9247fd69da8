"""What one cell measures: a strategy on a model's problem, or on a placement problem's file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from partition_cases.cases import Case
from partition_cases.isolation import Meter

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import Budget, Partition, PartitionProblem
from mcm_compiler.contracts.placement import PlacementRequest
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.placements.placement_file import read_placement, with_devices
from mcm_compiler.registry import PLACEMENT_COSTS, STRATEGIES
from mcm_compiler.text import spec_text
from mcm_passes.families.ring.strategies.local_search import KNOWN
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.planned_memory import solve_with_plans
from mcm_passes.mapping.solving.solve import solve

LEVEL = 2
"""Effort of the cells, that of `-O2`."""

LONG_LEVEL = 3
"""Effort of the search with the evaluator in the loop."""

PORTFOLIO = load_level(LEVEL).strategy
"""The default strategy."""

STEADY = frozenset({"dp"})
"""Strategies whose answer does not depend on the seed."""

LEFT_OUT = frozenset({"manual", "rl", "rl-finetune", "rl-zeroshot"})
"""Strategies that need an option or training."""

DISTRIBUTION = "mcm-compiler"

COST = "device-placement"

WARMING_EVALUATIONS = 300
"""Enough for what is only compiled for longer searches."""


def strategies() -> list[str]:
    """The built-in strategies that can run on their own and the portfolio's members, sorted."""
    names = {
        registration.name
        for registration in STRATEGIES.registrations()
        if registration.origin.startswith(DISTRIBUTION) and registration.name not in LEFT_OUT
    }
    names.discard(spec_text.parse_one(PORTFOLIO).name)
    return sorted({PORTFOLIO, *names, *members(PORTFOLIO)})


def members(text: str) -> tuple[str, ...]:
    """The members of a portfolio, as text."""
    return tuple(getattr(strategy_of(text), "members"))  # noqa: B009 (not of all strategies)


def begins_with_known(text: str) -> bool:
    """Whether a member begins with what others have found: alone it is another search."""
    return getattr(strategy_of(text), "start", "") == KNOWN


def slack(text: str) -> float:
    """How much worse than its best member's a portfolio's period may be."""
    return float(getattr(strategy_of(text), "slack"))  # noqa: B009 (not of all strategies)


def run_strategy(
    case: Case, text: str, seed: int, level: int, budget_s: float | None = None
) -> dict[str, Any]:
    """Solves a case as the pass `partition` does, and asks the evaluator about the answer.

    Args:
        case: the problem.
        text: of the strategy.
        seed: of the compile.
        level: effort, as in `-O2`.
        budget_s: wall time, or None.

    Raises:
        CompileError: as the pass does.
    """
    strategy = strategy_of(text)
    budget = Budget(
        evaluations=load_level(level).evaluations(case.problem.num_units),
        seconds=budget_s,
        effort_s=load_level(level).effort_s,
        evaluator=case.evaluator,
    )

    def solve_one(problem: PartitionProblem, left: Budget) -> Partition:
        rng = seeded_generator(seed, "partition")
        return solve(problem, strategy, rng, left, strategy_text=text)

    with Meter() as meter:
        partition = solve_with_plans(case.problem, solve_one, budget)
    return meter.figures() | {
        "period_s": partition.period_s,
        "bound_s": partition.bound.seconds,
        "argument": partition.bound.argument,
        "simulated_s": float(case.evaluator.evaluate(partition.chip_of[None]).period_s[0]),
        "chips_used": partition.num_chips_used,
        "found_by": partition.found_by,
        "learned_gain": partition.learned.share if partition.learned else None,
    }


def run_placement(path: Path, rule: Rule, text: str | None, seed: int) -> dict[str, Any]:
    """Places the operators of a file on its accelerators.

    Args:
        path: a problem file.
        rule: what connects the accelerators.
        text: of the strategy, or None for the method of the cost itself.
        seed: of the search.

    Raises:
        CompileError: as `mcmc partition` does.
    """
    with Meter() as meter:
        problem = with_devices(read_placement(path), None, 0)
        request = PlacementRequest(problem=problem, rule=rule, partitioner=text, seed=seed)
        found = PLACEMENT_COSTS.get(COST)().place(request)
    return meter.figures() | {
        "operators": problem.num_operators,
        "devices": problem.max_accelerators,
        "period": found.period,
        "bound": found.lower_bound,
        "argument": found.argument,
        "method": found.method,
        "price": found.price,
    }


def warm_up(case: Case, texts: list[str], placement: Path | None) -> None:
    """Runs everything once on something small, so that loading compiled code is not measured.

    What fails here fails again in its cell, and is told there.
    """
    budget = Budget(evaluations=WARMING_EVALUATIONS, effort_s=0.1, evaluator=case.evaluator)
    for text in texts:
        with suppress(Exception):
            rng = np.random.default_rng(0)
            strategy_of(text).solve(case.problem, AnalyticPeriods(case.problem), rng, budget)
    if placement is not None:
        run_placement(placement, "relay", None, 0)
