"""Rounds: how many inferences a pipeline computes together, where, and whether that is faster."""

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
from mcm_passes.mapping.machine.device_order import along, first_order
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.models import mapping_of, periods_of
from mcm_passes.mapping.problem.topological_orders import topological_orders
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.solving.lowered_evaluator import evaluator_of
from mcm_passes.parallelism.copies.copied_stages import CopiedStages, StageTimes
from mcm_passes.parallelism.copies.stage_windows import heavy_from, stage_windows
from mcm_passes.parallelism.replicas import unrolling
from mcm_passes.parallelism.replicas.replicas import on_share, share_evaluator

LONGER_GAIN = 0.005
"""Share by which a longer round, or more pipelines, must be faster: both make graph or memory of a
package larger."""

MOST_STAGGERED = 3
"""Inferences of a round up to which stages without copies are staggered."""

FINE_BLOCKS = 640
"""Blocks of such an order, whose tables are few."""

MOST_UNITS = 6000
"""Units of a round at most: all that follows takes time for each of them."""


@dataclass(frozen=True, eq=False)
class Round:
    """Pipelines that compute several inferences together.

    Attributes:
        replicas: pipelines side by side.
        chips_each: chips of each.
        classes: L, inferences of a round of one pipeline.
        chip_of: `[L * N]`, a placement of the problem `unrolled` for one pipeline.
        seconds: per inference of the package, under the analytic model.
    """

    replicas: int
    chips_each: int
    classes: int
    chip_of: Ints
    seconds: float


def least_s(problem: PartitionProblem) -> float:
    """Seconds per inference that no round undercuts: all chips share its work."""
    return float(problem.compute_s.sum() / problem.chip_speed.sum()) * (1.0 - 1e-12)


def fastest_round(
    problem: PartitionProblem,
    numbers: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    below_s: float,
) -> Round | None:
    """The fastest round that is found along one order of the units.

    Its stages are copied unequally, or *staggered*: without copies, each class has bounds of its
    own, so that heavy units of some of them are on the chip before.

    Of rounds within `LONGER_GAIN` of each other the shortest is taken, then the one of fewest
    pipelines. No graph is looked at.

    Args:
        problem: of one inference on all chips.
        numbers: of pipelines that may be, each with the chips of one.
        sizes: numbers of inferences in a round that may be, ascending.
        below_s: seconds per inference of the package that it has to undercut.

    Returns:
        None where no round is found to be faster.
    """
    best: Round | None = None
    sizes = [size for size in sizes if size * problem.num_units <= MOST_UNITS]
    if not sizes or least_s(problem) >= below_s:
        return None
    line = along(problem, first_order(problem))
    units = topological_orders(line, 1)[0].units
    windows = stage_windows(line, units)
    times = StageTimes(line, windows)
    numbers = [(count, each) for count, each in numbers if times.fits(each, below_s * count)]

    def better(best: Round | None, stages: CopiedStages, classes: int) -> Round | None:
        for replicas, each in numbers:
            at_once = replicas * classes
            limit_s = below_s if best is None else best.seconds * (1.0 - LONGER_GAIN)
            found = stages.fastest(each, limit_s * at_once)
            if found is None:
                continue
            share = on_share(problem, each, replicas)
            chip_of = first_order(share).devices(found.chip_of.ravel())
            placed = evaluate(unrolled(share, classes), chip_of)
            seconds = placed.period_s / at_once
            if placed.valid and seconds <= limit_s:
                best = Round(replicas, each, classes, np.array(chip_of, np.int32), seconds)
        return best

    for classes in sizes if numbers else ():
        best = better(best, CopiedStages(times, classes), classes)
        if classes <= MOST_STAGGERED:
            best = better(best, _in_turns(line, units, classes, 0), classes)
    if best is not None and (heavy := heavy_from(windows.busy_s[0], windows.weights[0])):
        shared = int(np.searchsorted(windows.block_of[units], heavy))
        best = better(best, _in_turns(line, units, best.classes, shared), best.classes)
    return best


def _in_turns(line: PartitionProblem, units: Ints, classes: int, shared: int) -> CopiedStages:
    """Chains without copies along the units of one class after the other.

    From position `shared` on, classes take turns at each unit.
    """
    first = np.arange(classes)[:, np.newaxis] * line.num_units
    own, last = first + units[:shared], first + units[shared:]
    order = np.concatenate([own.ravel(), last.T.ravel()]).astype(np.int32)
    together = unrolled(line, classes)
    windows = stage_windows(together, order, FINE_BLOCKS)
    return CopiedStages(StageTimes(together, windows), 1)


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
