"""The pass `partition`: which chip runs which op."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler import spec_text
from mcm_compiler.cost import NODE_COST
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.fusion import FUSION_PLAN
from mcm_compiler.options import AUTO
from mcm_compiler.partition import (
    PARTITION,
    PARTITION_PROBLEM,
    Budget,
    Partition,
    PartitionProblem,
    SearchMonitor,
)
from mcm_compiler.passes import AnyKey, Pass, PassContext
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.replication import PACKAGE_PROBLEM, REPLICATION, Replication
from mcm_compiler.target import Target
from mcm_compiler.units import seconds_text
from mcm_passes.partitioning.planned_memory import overflows, solve_with_plans
from mcm_passes.partitioning.problem_builder import build_problem
from mcm_passes.partitioning.solve import solve, with_chips
from mcm_passes.partitioning.untyped_values import untyped_note
from mcm_passes.placement_facts import PLACEMENT_FACTS
from mcm_passes.problem_files.wishes import Wishes
from mcm_passes.strategies.lazy_judge import LazyJudge
from mcm_passes.strategies.levels import EFFORT_S, STRATEGY_OF_LEVEL, evaluations_of_level


@dataclass(frozen=True)
class PartitionPass(Pass):
    """Builds the partitioning problem and solves it with a registered strategy.

    Attributes:
        strategy: text form of the strategy, such as `dp{orders=4}`; where None the compile's
            option `partitioner`, or what its `level` stands for.
    """

    name: ClassVar[str] = "partition"
    summary: ClassVar[str] = "place ops on chips, with a proven bound"
    requires: ClassVar[tuple[AnyKey, ...]] = (NODE_COST, FUSION_PLAN)
    provides: ClassVar[tuple[AnyKey, ...]] = (PARTITION_PROBLEM, PARTITION, REPLICATION)
    invalidates: ClassVar[tuple[AnyKey, ...]] = PLACEMENT_FACTS

    strategy: str | None = None

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Attaches `PARTITION_PROBLEM` and `PARTITION`; the graph stays as it is.

        MCM-P014 notes values whose type nothing tells.

        Raises:
            CompileError: MCM-U001 to MCM-U003 for the strategy's text, and MCM-P001, P002, P004,
                P005, P007 to P009 and P013 as `build_problem`, `solve` and `with_chips`, and
                MCM-F010 to MCM-F014 for pins and assignments.
        """
        options = context.options
        level_text = STRATEGY_OF_LEVEL[options.level]
        wanted = level_text if options.partitioner == AUTO else options.partitioner
        spec = spec_text.parse_one(self.strategy or wanted)
        strategy = spec_text.instantiate(STRATEGIES.get(spec.name), spec)
        text = spec_text.print_one(spec.name, strategy)
        plan = FUSION_PLAN.get(model)
        wishes = Wishes.of(model, plan, options)
        problem = PACKAGE_PROBLEM.find(model)
        if problem is None:
            problem = build_problem(model, context.target, options.routing, plan, pins=wishes.pins)
            if options.chips is not None:
                problem = with_chips(problem, options.chips)
        if (note := untyped_note(model.graph, plan)) is not None:
            context.report(note)
        given, notes = wishes.strategy(problem, model, options)
        for note in notes:
            context.report(note)
        if given is not None:
            strategy, text = given, given.name
        cost_model = context.target.cost_model().name

        def solve_one(one: PartitionProblem, left: Budget) -> Partition:
            rng = context.rng("partition")
            return solve(one, strategy, rng, left, strategy_text=text, cost_model=cost_model)

        start_s = time.monotonic()
        chosen = REPLICATION.find(model) or Replication(1, problem.num_chips)
        choices = (chosen, *chosen.fallbacks())
        for replication in choices:
            shared = problem
            if replication.chips_each < problem.num_chips:
                limits = problem.limits.first(replication.chips_each)
                shared = dataclasses.replace(problem, limits=limits)
            seconds = options.budget_s
            if seconds is not None:
                seconds = max(seconds - (time.monotonic() - start_s), 0.0)
            budget = Budget(
                evaluations=options.samples or evaluations_of_level(options.level, shared),
                seconds=seconds,
                effort_s=EFFORT_S[options.level],
                judge=_judge(model, shared, context.target),
                monitor=SearchMonitor(lambda _, period_s: context.progress(_found(text, period_s))),
            )
            last = replication is choices[-1]
            try:
                partition = solve_with_plans(
                    shared, solve_one, budget, persist=last, searches=given is None
                )
            except CompileError:
                # More pipelines than memory was found for are no fault of the model.
                if last:
                    raise
                continue
            if last or not overflows(shared, partition, budget):
                PARTITION_PROBLEM.set(model, shared)
                PARTITION.set(model, partition)
                REPLICATION.set(model, replication)
                return


def _judge(model: ir.Model, problem: PartitionProblem, target: Target) -> LazyJudge | None:
    """The target's batch judge; None for targets that have none."""
    build = getattr(target, "batch_judge", None)
    if build is None:
        return None
    groups = FUSION_PLAN.get(model).group_names
    return LazyJudge(lambda: build(model, problem, groups))


def _found(strategy: str, period_s: float) -> str:
    return f"partition: {strategy} found {seconds_text(period_s)}"
