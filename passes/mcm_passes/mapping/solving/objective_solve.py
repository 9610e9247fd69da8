"""Solving a problem for an objective that is not the plain period."""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_compiler.contracts.mapping import KnowsObjectives
from mcm_compiler.contracts.objectives import (
    MeetsObjectives,
    Objective,
    ObjectiveFigures,
    ShareBound,
    meets,
)
from mcm_compiler.contracts.partition import (
    Budget,
    Ints,
    LowerBound,
    Outcome,
    Partition,
    PartitionProblem,
    PartitionStrategy,
)
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text.units import seconds_text
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.models import mapping_of
from mcm_passes.mapping.search.named import answer_of
from mcm_passes.mapping.solving.solve import checked_answer, not_found


def require_able(
    problem: PartitionProblem, strategy: PartitionStrategy, objective: Objective, text: str
) -> KnowsObjectives:
    """The mapping of a problem's family, where it and a strategy can do what is asked for.

    Raises:
        CompileError: MCM-P060 for a strategy or MCM-P061 for a family that cannot.
    """
    mapping = mapping_of(problem)
    if not isinstance(mapping, KnowsObjectives):
        raise CompileError.of(
            "MCM-P061",
            f"{objective} is asked for, and no model predicts latencies on machines of the family "
            f"{quote(problem.family)}",
            at="option objective",
        )
    if not meets(strategy, objective):
        able = [
            registration.name
            for registration in STRATEGIES.registrations()
            if isinstance(found := registration.load(), MeetsObjectives)
            and objective.aim in _aims(found)
        ]
        raise CompileError.of(
            "MCM-P060",
            f"strategy {quote(text)} searches for the least period alone, and {objective} is "
            f"asked for",
            at="option partitioner",
            hint=f"strategies that can: {', '.join(able)}; or leave the choice to the level",
        )
    return mapping


def _aims(found: object) -> tuple[str, ...]:
    """Objectives of a registered class of strategies, with its defaults."""
    strategy = found() if isinstance(found, type) else found
    return strategy.aims if isinstance(strategy, MeetsObjectives) else ()


def solve_for(
    problem: PartitionProblem,
    strategy: PartitionStrategy,
    rng: np.random.Generator,
    budget: Budget,
    *,
    strategy_text: str,
) -> Partition:
    """The partition that a strategy finds for the budget's objective, with its figures and bounds.

    Args:
        problem: of one pipeline.
        strategy: how to search.
        rng: its source of randomness.
        budget: what it may spend, with the objective.
        strategy_text: text form of the strategy, for the report.

    Raises:
        CompileError: MCM-P060 and P061 as `require_able`, MCM-P062 where nothing answers in time,
            the others as `mcm_passes.mapping.solving.solve.solve`.
    """
    objective = budget.objective
    mapping = require_able(problem, strategy, objective, strategy_text)
    CompileError.raise_any(impossible(problem))
    bound = mapping.objective_bound(problem, objective)
    values = mapping.objective_values(problem, objective)
    budget = dataclasses.replace(budget, enough_s=max(budget.enough_s, bound.seconds))
    outcome = answer_of(strategy_text, strategy, problem, values, rng, budget)
    if outcome.chip_of is None and objective.max_latency_s is not None:
        by = (strategy_text, strategy)
        outcome = _without_limit(problem, mapping, by, rng, budget, outcome)
    if outcome.chip_of is None:
        raise CompileError(not_found(problem, strategy_text, outcome))
    return _answer(problem, objective, outcome, bound, strategy_text)


def given_for(
    problem: PartitionProblem,
    chip_of: Ints,
    bound: LowerBound | None,
    *,
    objective: Objective,
    strategy_text: str,
) -> Partition:
    """The answer that a partition is whose memory was planned, with its figures and bounds.

    Args:
        problem: of one pipeline.
        chip_of: the partition.
        bound: on the period, which `objective` is not; the bound of the objective is derived.
        objective: what is asked for.
        strategy_text: as in `solve_for`.

    Raises:
        CompileError: MCM-P008 where the partition is not what the objective asks for.
    """
    del bound
    mapping, needed = mapping_of(problem), problem.at_need()
    assert isinstance(mapping, KnowsObjectives), "solving for the objective asked before"
    outcome = Outcome(chip_of, 0, found_by="first look")
    if not np.isfinite(mapping.objective_values(needed, objective)(chip_of)):
        reason = f"what is found without a search is not {objective}"
        raise CompileError(not_found(problem, strategy_text, Outcome(None, 0, reason)))
    least = mapping.objective_bound(problem, objective)
    return _answer(needed, objective, outcome, least, strategy_text)


def _answer(
    problem: PartitionProblem,
    objective: Objective,
    outcome: Outcome,
    bound: LowerBound,
    strategy_text: str,
) -> Partition:
    """The partition of an outcome with its figures.

    Raises:
        CompileError: MCM-P009 as `checked_answer`, and for what is not as the objective says.
    """
    mapping = mapping_of(problem)
    assert isinstance(mapping, KnowsObjectives), "it was asked for the bound"
    period = lower_bound(problem)
    unbound = dataclasses.replace(outcome, bound=None)
    plain = checked_answer(problem, unbound, period, strategy_text)
    value = float(mapping.objective_values(problem, objective)(plain.chip_of))
    if not np.isfinite(value):
        raise CompileError.of(
            "MCM-P009",
            f"strategy '{strategy_text}' returned a partition that is not {objective}",
            at="option partitioner",
        )
    best = _stronger(bound, outcome.bound, value, strategy_text)
    share = ShareBound(1, problem.num_chips, best.seconds, best.proof, best.argument)
    latency_s = mapping.latency_s(problem, plain.chip_of)
    figures = ObjectiveFigures(objective, value, best.seconds, latency_s, (share,))
    return dataclasses.replace(plain, figures=figures)


def _stronger(
    bound: LowerBound, found: LowerBound | None, value: float, strategy_text: str
) -> LowerBound:
    """The better of two bounds, no larger than a value that was reached.

    Raises:
        CompileError: MCM-P009 for a bound beyond it.
    """
    if found is not None and found.seconds > bound.seconds:
        bound = found
    if bound.seconds > value * (1.0 + 1e-9):
        raise CompileError.of(
            "MCM-P009",
            f"strategy '{strategy_text}' claims that nothing is below "
            f"{bound.seconds:.9g}, and returned a partition of {value:.9g}",
            at="option partitioner",
        )
    return dataclasses.replace(bound, seconds=min(bound.seconds, value))


def _without_limit(
    problem: PartitionProblem,
    mapping: KnowsObjectives,
    by: tuple[str, PartitionStrategy],
    rng: np.random.Generator,
    budget: Budget,
    outcome: Outcome,
) -> Outcome:
    """Outcome of a search for the least latency, where none for a period found anything in time.

    Raises:
        CompileError: MCM-P062 where that is too late, with the least latency.
    """
    limit_s = budget.objective.max_latency_s
    assert limit_s is not None
    least = Objective("latency")
    bound = mapping.objective_bound(problem, least)
    able = meets(by[1], least)
    if able:
        enough_s = max(bound.seconds, limit_s)
        relaxed = dataclasses.replace(budget, objective=least, enough_s=enough_s)
        values = mapping.objective_values(problem, least)
        found = answer_of(*by, problem, values, rng, relaxed)
        if found.chip_of is None:
            return found
        if (found_s := float(values(found.chip_of))) <= limit_s:
            return dataclasses.replace(outcome, chip_of=found.chip_of)
        if found.bound is not None and found.bound.seconds > bound.seconds:
            bound = found.bound
        known = f"the least that is known is {seconds_text(found_s)}"
    else:
        known = "what the least is was not sought"
    proven = outcome.infeasible or bound.seconds > limit_s
    certain = "no placement answers" if proven else "no placement was found that answers"
    raise CompileError.of(
        "MCM-P062",
        f"{certain} within {seconds_text(limit_s)}: {known}, and none is below "
        f"{seconds_text(bound.seconds)} ({bound.argument})",
        at="option max_latency",
        hint=_what_helps(problem, limit_s, bound),
    )


def _what_helps(problem: PartitionProblem, limit_s: float, bound: LowerBound) -> str:
    """Remedy that would bring the latency down, by what sets it."""
    work_s = float(problem.compute_s.sum()) / float(problem.chip_speed.max())
    if bound.proof == "critical_path" and bound.seconds > limit_s:
        return (
            "ops that wait for each other take longer than that on any number of chips: a faster "
            "chip, smaller batches, or ops divided among chips (--plan, --planner)"
        )
    if work_s > limit_s:
        return "more time, a faster chip, or ops divided among chips (--plan, --planner)"
    return "more time, more memory per chip so that fewer tensors cross links, or faster links"


def with_share(figures: ObjectiveFigures, replicas: int, chips_each: int) -> ObjectiveFigures:
    """Figures of one pipeline as those of this many on such shares, of the package."""
    period = figures.objective.aim == "max-latency"
    rows = tuple(
        dataclasses.replace(one, replicas=replicas, chips_each=chips_each) for one in figures.proven
    )
    by = replicas if period else 1
    return dataclasses.replace(
        figures, value=figures.value / by, bound=figures.bound / by, proven=rows
    )
