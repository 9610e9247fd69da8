"""Solving a problem with a strategy, and the certificate of the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.infeasibility import all_weights, heaviest_weight, impossible
from mcm_passes.mapping.models import evaluate, mapping_of, periods_of
from mcm_passes.mapping.search.named import ROOM, answer_of, refuted_bound


def solve(
    problem: partition.PartitionProblem,
    strategy: partition.PartitionStrategy,
    rng: np.random.Generator,
    budget: partition.Budget,
    *,
    strategy_text: str,
) -> partition.Partition:
    """The partition that `strategy` finds, checked against the rules, with its bound.

    Args:
        problem: what to place.
        strategy: how to search.
        rng: its source of randomness.
        budget: what it may spend.
        strategy_text: text form of the strategy, for the report.

    Raises:
        CompileError: MCM-P002 if nothing is to be placed, MCM-P005 or P015 if a unit alone exceeds
            every chip's memory, MCM-P004 if all weights together exceed all memory. MCM-P007 if a
            pin can't be kept, MCM-P016 if the strategy proves that there is nothing, MCM-P008 if
            it finds nothing. MCM-P009 if what it returns breaks a rule, MCM-P040 if it knows rings
            alone and the problem is for another machine.
    """
    adapted = mapping_of(problem).adapted(strategy_text, strategy)
    if adapted is None:
        raise CompileError(_not_for(problem.family, strategy_text))
    faults = impossible(problem)
    CompileError.raise_any(faults)
    bound = lower_bound(problem)
    budget = dataclasses.replace(budget, enough_s=max(budget.enough_s, bound.seconds))
    outcome = answer_of(strategy_text, adapted, problem, periods_of(problem), rng, budget)
    if outcome.chip_of is None:
        raise CompileError(not_found(problem, strategy_text, outcome))
    return checked_answer(problem, outcome, bound, strategy_text)


def checked_answer(
    problem: partition.PartitionProblem,
    outcome: partition.Outcome,
    bound: partition.LowerBound,
    strategy_text: str,
) -> partition.Partition:
    """The partition that an outcome has, compared with the rules and against bounds on the period.

    Args:
        problem: what was to be placed.
        outcome: with a partition. Its bound is one on the period, unless it was asked for
            something else.
        bound: the best that is known otherwise.
        strategy_text: who found it.

    Raises:
        CompileError: MCM-P009 for one that breaks a rule, or is faster than its own bound.
    """
    assert outcome.chip_of is not None
    result = evaluate(problem, outcome.chip_of)
    if not result.valid:
        raise CompileError(
            [
                Diagnostic(
                    "MCM-P009",
                    f"strategy '{strategy_text}' returned an invalid partition: {v.message}",
                    at="option partitioner",
                )
                for v in result.violations[:5]
            ]
        )
    if outcome.bound is not None and outcome.bound.seconds > bound.seconds:
        bound = outcome.bound
    if bound.seconds > result.period_s * (1.0 + ROOM):
        raise refuted_bound(strategy_text, bound.seconds, result.period_s)
    # Sums taken in another order may differ in the last bits.
    bound = dataclasses.replace(bound, seconds=min(bound.seconds, result.period_s))
    result.chip_of.setflags(write=False)
    return partition.Partition(
        chip_of=result.chip_of,
        period_s=result.period_s,
        bound=bound,
        strategy=strategy_text,
        found_by=outcome.found_by,
        learned=outcome.learned,
    )


def given_answer(
    problem: partition.PartitionProblem,
    chip_of: partition.Ints,
    bound: partition.LowerBound | None,
    *,
    strategy_text: str,
) -> partition.Partition:
    """The answer that a partition is whose memory was planned, whatever its estimate.

    Args:
        problem: what was to be placed.
        chip_of: a partition from before the search.
        bound: on the period of all partitions; None for that of the problem.
        strategy_text: the strategy that searched.

    Raises:
        CompileError: as `checked_answer`.
    """
    found = checked_answer(
        problem.at_need(),
        partition.Outcome(chip_of, 0, found_by="first look"),
        bound or lower_bound(problem),
        strategy_text,
    )
    period_s = evaluate(problem, found.chip_of).period_s
    return dataclasses.replace(found, period_s=period_s)


def with_sram_limits(
    problem: partition.PartitionProblem, sram_bytes: Sequence[int]
) -> partition.PartitionProblem:
    """The same problem with other memory limits.

    For the dynamic constraint (MCM, Eq. 5): where lowering finds that a chip needs more than the
    estimate said, the problem is solved again with that chip's limit made smaller.

    Args:
        problem: the problem.
        sram_bytes: `[C]`.

    Raises:
        ValueError: if there is not one limit per chip.
    """
    if len(sram_bytes) != problem.num_chips:
        raise ValueError(f"{len(sram_bytes)} limits for {problem.num_chips} chips")
    limits = dataclasses.replace(problem.limits, sram_bytes=tuple(sram_bytes))
    return problem.within(limits)


def with_chips(
    problem: partition.PartitionProblem, num_chips: int, pipelines: int | None = 1
) -> partition.PartitionProblem:
    """The same problem on the first `num_chips` chips of the package.

    Args:
        problem: the problem.
        num_chips: chips that may be used.
        pipelines: how many share them; None where that is still to be chosen.

    Raises:
        CompileError: MCM-P013 if the package has fewer chips, or all pipelines together have
            fewer units to place.
    """
    limits = problem.limits
    units = int((~problem.clonable).sum())
    useful = units * (num_chips if pipelines is None else pipelines)
    if num_chips > limits.num_chips:
        have = f"the target has {limits.num_chips}"
    elif num_chips > useful:
        have = f"the model has {count_text(units, 'unit')} of ops to place"
        if pipelines != 1:
            have += f" in each of {count_text(pipelines, 'pipeline')}"
    else:
        return problem.within(limits.first(num_chips))
    raise CompileError.of(
        "MCM-P013", f"{num_chips} chips are asked for, and {have}", at="option chips"
    )


def _not_for(family: str, strategy_text: str) -> Diagnostic:
    able = [
        registration.name
        for registration in STRATEGIES.registrations()
        if isinstance(registration.load(), partition.KnowsMachines)
    ]
    return Diagnostic(
        "MCM-P040",
        f"strategy {quote(strategy_text)} places ops on rings alone, and the target is of the "
        f"family {quote(family)}",
        at="option partitioner",
        hint=f"strategies for all machines: {', '.join(able)}; or leave the choice to the level",
    )


def not_found(
    problem: partition.PartitionProblem, strategy_text: str, outcome: partition.Outcome
) -> Diagnostic:
    """Why there is no partition: MCM-P016 where that is proven, else MCM-P008."""
    weights = all_weights(problem)
    memory = sum(problem.limits.sram_bytes)
    hints = ["choose a target with more memory"]
    if problem.routing == "strict" and problem.on_ring:
        hints.insert(0, "allow relays (--routing relay)")
    if strategy_text.startswith("dp{"):
        hints.insert(0, "search harder (--partitioner dp)")
    total = (
        f"weights need {bytes_text(weights)} of {bytes_text(memory)} on {problem.num_chips} chips"
    )
    if outcome.infeasible:
        code = "MCM-P016"
        text = f"strategy '{strategy_text}' proved that no partition is valid: {outcome.reason}"
    else:
        code = "MCM-P008"
        text = (
            f"strategy '{strategy_text}' found no valid partition, which is no proof that there "
            f"is none: {outcome.reason or 'it gives no reason'}"
        )
    return Diagnostic(
        code,
        f"{text}; {total}",
        at=f"weight {heaviest_weight(problem)}"
        if weights
        else f"all {count_text(len(problem.names), 'unit')} of ops",
        hint=", or ".join(hints),
    )
