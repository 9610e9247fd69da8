"""Objectives of the pass `partition` other than the plain period."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.mapping import KnowsObjectives
from mcm_compiler.contracts.objectives import Objective, ShareBound
from mcm_compiler.contracts.partition import (
    Budget,
    Ints,
    LowerBound,
    Partition,
    PartitionProblem,
    PartitionStrategy,
)
from mcm_compiler.pipeline.passes import PassContext
from mcm_passes.mapping.models import mapping_of
from mcm_passes.mapping.problem.unit_energies import with_energy
from mcm_passes.mapping.solving.objective_solve import given_for, require_able, solve_for
from mcm_passes.mapping.solving.planned_memory import first_planned
from mcm_passes.mapping.solving.solve import given_answer, solve
from mcm_passes.parallelism.replicas.objective_search import numbers_of_pipelines, solve_objective
from mcm_passes.parallelism.replicas.replica_search import Budgets, Pipelines, Solved, solved
from mcm_passes.parallelism.replicas.replicas import replica_obstacle


@dataclass(frozen=True)
class ObjectiveRun:
    """One strategy that is asked for an objective.

    Attributes:
        strategy: the strategy.
        text: its text form.
        given: whether the placement is given, and nothing is searched.
        alone: whether the strategy alone shall answer: it is given, or was named by the user.
        known: partitions on all chips that were found before.
    """

    strategy: PartitionStrategy
    text: str
    given: bool
    alone: bool
    known: tuple[Ints, ...] = ()

    def prepared(
        self, problem: PartitionProblem, model: ir.Model, context: PassContext, plan: FusionPlan
    ) -> PartitionProblem:
        """The problem with what the objective of the options needs.

        Raises:
            CompileError: MCM-P060 or MCM-P061 where strategy or family cannot do what is asked for,
                MCM-P064 where the target says nothing of energy that is asked for.
        """
        goal = context.options.goal
        if goal.aim != "period":
            require_able(problem, self.strategy, goal, self.text)
        if goal.kind == "energy":
            problem = with_energy(problem, model, context.target, plan)
        return problem

    def found(self, problem: PartitionProblem, context: PassContext, budgets: Budgets) -> Pipelines:
        """The pipelines that meet the objective of the options best.

        Raises:
            CompileError: MCM-P062 and MCM-P063 as `solve_for` and `solve_objective`, and as `solve`
                does.
        """
        options, goal = context.options, context.options.goal
        budgets = replace(budgets, problem=problem)

        def solve_one(shared: PartitionProblem, pipelines: int, objective: Objective, /) -> Solved:
            budget = budgets.of(shared, pipelines, objective=objective, known=self.known)
            proven, plain = _FirstProof(), objective.aim == "period"
            if plain and not self.alone:
                first = first_planned(shared, budget.evaluator)
                budget = replace(budget, known=() if first is None else (first.chip_of,))

            def within_limits(one: PartitionProblem, left: Budget) -> Partition:
                # A generator each, so that no number of pipelines depends on those before it.
                rng = context.rng("partition")
                solver = solve if plain else solve_for
                return proven.kept(solver(one, self.strategy, rng, left, strategy_text=self.text))

            def given(
                one: PartitionProblem, chip_of: Ints, bound: LowerBound | None, /
            ) -> Partition:
                if plain:
                    return given_answer(one, chip_of, bound, strategy_text=self.text)
                found = given_for(one, chip_of, bound, objective=objective, strategy_text=self.text)
                return proven.kept(found)

            return solved(
                shared,
                within_limits,
                budget,
                persist=True,
                given=None if self.given else given,
                alone=self.alone,
                simulated=False,
            )

        obstacle = replica_obstacle(problem, options, context.target.name)
        numbers = numbers_of_pipelines(problem, options.replicas, obstacle)
        found = solve_objective(problem, goal, numbers, solve_one)
        return _with_latency(found)


class _FirstProof:
    """Proof under the package's own limits of memory; smaller ones prove nothing."""

    def __init__(self) -> None:
        self._first: ShareBound | None = None

    def kept(self, found: Partition) -> Partition:
        """The partition with what was proven first."""
        if found.figures is None:
            return found
        self._first = self._first or found.figures.proven[0]
        bound = min(self._first.value, found.figures.value)
        figures = replace(found.figures, bound=bound, proven=(replace(self._first, value=bound),))
        return replace(found, figures=figures)


def _with_latency(found: Pipelines) -> Pipelines:
    """The pipelines with the latency of one of them, where their family has latencies."""
    mapping, figures = mapping_of(found.problem), found.partition.figures
    if figures is None or figures.latency_s is not None or not isinstance(mapping, KnowsObjectives):
        return found
    latency_s = mapping.latency_s(found.problem, found.partition.chip_of)
    figures = replace(figures, latency_s=latency_s)
    return replace(found, partition=replace(found.partition, figures=figures))
