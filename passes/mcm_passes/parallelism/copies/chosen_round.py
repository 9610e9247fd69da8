"""The choice between one inference at a time and a round, by the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.partition import Budget, Ints, PartitionProblem
from mcm_compiler.contracts.replication import PipelineCount, Replication
from mcm_compiler.contracts.target import Target
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.variants.prepared_model import kept_copy
from mcm_passes.mapping.bounds.bounds import total_work
from mcm_passes.mapping.models import mapping_of, periods_of
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.solving.lowered_evaluator import evaluator_of
from mcm_passes.parallelism.copies.round_search import Round, fastest_round
from mcm_passes.parallelism.replicas import unrolling
from mcm_passes.parallelism.replicas.replicas import on_share, share_evaluator

LEAST_GAIN = 0.01
"""Share of the simulated period that a round has to gain: its graph is L times as large."""

SEARCH_GAIN = 0.06
"""Share that a search may gain on a first partition; a round that gains less is compared with a
partition that was searched a little."""

REFINING_NAME = "reorder"
REFINING = "reorder{start=known,patience=10}"
"""The search that starts from a known placement, as of a round."""

REFINING_EVALUATIONS = 5_000


@dataclass(frozen=True, eq=False)
class ChosenRound:
    """A round with what later passes need.

    Attributes:
        problem: of a round of one pipeline on all chips.
        evaluator: the simulator for it.
        replication: with the placement that was found.
    """

    problem: PartitionProblem
    evaluator: BatchEvaluator | None
    replication: Replication


def refined(problem: PartitionProblem, chip_of: Ints) -> Ints:
    """A placement, or a faster one under the analytic model that is found from it."""
    if REFINING_NAME not in STRATEGIES:
        return chip_of
    strategy = mapping_of(problem).adapted(REFINING, strategy_of(REFINING))
    if strategy is None:
        return chip_of
    periods, rng = periods_of(problem), np.random.default_rng(0)
    budget = Budget(evaluations=REFINING_EVALUATIONS, known=(chip_of,))
    found = answer_of(REFINING, strategy, problem, periods, rng, budget).chip_of
    return chip_of if found is None or periods(found) > periods(chip_of) else found


def given_round(
    problem: PartitionProblem, numbers: Sequence[tuple[int, int]], classes: int
) -> Replication | None:
    """The best number of replicas for rounds of a given length.

    Args:
        problem: of one inference on all chips.
        numbers: of pipelines that may be, each with the chips of one.
        classes: L.

    Returns:
        None where no placement is found along an order.
    """
    found = fastest_round(problem, numbers, (classes,), float("inf"))
    return None if found is None else _replication(problem, found, found.seconds)


def confirmed_round(
    model: ir.Model,
    problem: PartitionProblem,
    today: Replication,
    found: Round,
    options: CompileOptions,
    target: Target,
) -> ChosenRound | None:
    """A round, if it is faster on the simulator than one inference at a time.

    Args:
        model: of one inference, which has no `round_obstacle`; it stays as it is.
        problem: its problem on all chips.
        today: the replicas that were chosen for one inference at a time.
        found: the round.
        options: of the compile.
        target: the package.
    """
    copied, own = kept_copy(model), unrolling.own_weights(model, found.classes)
    whole = unrolled(problem, found.classes, own)
    unrolling.unroll(copied, found.classes, options)
    evaluator = evaluator_of(copied, whole, target)
    simulated_s = found.seconds
    if evaluator is not None:
        pipeline = on_share(whole, found.chips_each, found.replicas)
        asked = share_evaluator(evaluator, pipeline, found.replicas)
        round_s = float(asked.evaluate(found.chip_of[np.newaxis]).period_s[0])
        simulated_s = round_s / (found.replicas * found.classes)
    known = next((one for one in today.considered if one.replicas == today.replicas), None)
    if known is not None and known.seconds is not None:
        today_s = known.seconds
        if simulated_s > today_s * (1.0 - SEARCH_GAIN):
            share = on_share(problem, today.chips_each, today.replicas)
            better_s = periods_of(share)(refined(share, known.rows[0])) / today.replicas
            today_s = min(today_s, better_s)
        if simulated_s > today_s * (1.0 - LEAST_GAIN):
            return None
    if not np.isfinite(simulated_s):
        return None
    return ChosenRound(whole, evaluator, _replication(problem, found, simulated_s))


def _replication(problem: PartitionProblem, found: Round, simulated_s: float) -> Replication:
    """The pipelines of a round, with the bound of work for all other numbers."""
    whole, considered = unrolled(problem, found.classes), dict[int, PipelineCount]()
    numbers = [*equal_shares(problem.num_chips, problem.machine)]
    for count, each in (*numbers, (found.replicas, found.chips_each)):
        bound = total_work(on_share(whole, each, count))
        bound = replace(bound, proof=total_work.__name__)
        considered[count] = PipelineCount(count, each, bound=bound)
    considered[found.replicas] = replace(
        considered[found.replicas],
        analytic_s=found.seconds * found.classes,
        simulated_s=simulated_s * found.classes,
        partitions=found.chip_of[np.newaxis],
    )
    rows = tuple(considered[count] for count in sorted(considered))
    return Replication(found.replicas, found.chips_each, rows, found.classes)
