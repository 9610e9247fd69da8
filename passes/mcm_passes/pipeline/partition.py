"""The pass `partition`: which chip runs which op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_compiler.components.capabilities import lacking
from mcm_compiler.contracts import replication
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.levels import Level, load_level
from mcm_compiler.contracts.partition import (
    PARTITION,
    PARTITION_PROBLEM,
    Budget,
    Ints,
    Partition,
    PartitionProblem,
    PartitionStrategy,
    asks_evaluator,
)
from mcm_compiler.contracts.target import Lowers, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.graph.states import STATES, States
from mcm_compiler.machines.machine_builder import shares_alike
from mcm_compiler.options import AUTO, CompileOptions
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.results.strictness import refused_states
from mcm_passes.mapping.bounds.heavy_chains import heavy_chains
from mcm_passes.mapping.placement_constraints.assignments import RequestedPlacement
from mcm_passes.mapping.problem.contraction import untyped_note
from mcm_passes.mapping.problem.measured_names import measured_note
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.state_units import (
    dropped_note,
    kept_states,
    too_many_sequences,
    units_with_states,
)
from mcm_passes.mapping.search.named import runnable
from mcm_passes.mapping.solving.lowered_evaluator import evaluator_of
from mcm_passes.mapping.solving.planned_memory import searches_cost_minutes
from mcm_passes.mapping.solving.solve import given_answer, solve, with_chips
from mcm_passes.parallelism.copies import copied_rounds
from mcm_passes.parallelism.divisions.candidate import LATENCY_STRATEGY
from mcm_passes.parallelism.replicas import replica_search
from mcm_passes.parallelism.replicas.in_flight import in_flight

WALKING = "local_search"
"""The search for large problems that may not fit by estimates."""

QUICK_BOUND = 0.1
"""Share of the effort for the bound from heavy units at levels that search one number of replicas;
of the gap of VGG-19 on 36 chips at `-O1`, 15 %, it leaves half."""


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
    uses: ClassVar[tuple[AnyKey, ...]] = (replication.REPLICATION,)
    provides: ClassVar[tuple[AnyKey, ...]] = (PARTITION_PROBLEM, PARTITION, replication.REPLICATION)

    strategy: str | None = None

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Attaches `PARTITION_PROBLEM` and `PARTITION`; the graph stays as it is.

        Where there is no partition with the model's states on their chips, there may be one with
        states that cross the host's link; MCM-P052 warns of those that do. The states of several
        sequences that the user asks for are kept or refused, MCM-P080.

        MCM-P014 notes values whose type nothing gives, MCM-T022 warns of a strategy that asks the
        simulator of a target which has none for searches, MCM-C007 how many times were measured.

        Raises:
            CompileError: MCM-U001 to MCM-U003 for the strategy's text, and MCM-P001, P002, P004,
                P005, P007 to P009 and P013 as `build_problem`, `solve` and `with_chips`. MCM-L012
                for a strategy that learns without what it needs, MCM-F010 to MCM-F014 for pins and
                assignments, MCM-C005 and MCM-C006 for measured times that do not fit the model.
        """
        found = self.found(model, context)
        if context.options.goal.plain:
            found = _bounded(found, load_level(context.options.level))
        PARTITION_PROBLEM.set(model, found.problem)
        PARTITION.set(model, found.partition)
        replication.REPLICATION.set(model, found.replication)
        return False

    def found(self, model: ir.Model, context: PassContext) -> replica_search.Pipelines:
        """The partition that `run` attaches, without the bound that is sought last."""
        notes: list[Diagnostic] = []
        quiet = replace(context, report=notes.append)
        try:
            found = self._found(model, quiet)
        except CompileError as error:
            if not _for_want_of_room(error) or not _keeps_states(model, context):
                for note in notes:
                    context.report(note)
                raise
            if (sequences := STATES.get(model).sequences) > 1:
                lacking_room = error.diagnostics[0].message
                raise CompileError(too_many_sequences(sequences, lacking_room)) from error
            notes.clear()  # the same come once more
            found = self._found(model, quiet, keep_states=False)
            notes.append(_given_up(model, error))
        if context.options.sequences is not None:
            notes = list(refused_states(notes))
            CompileError.raise_any(one for one in notes if one.severity is Severity.ERROR)
        for note in notes:
            context.report(note)
        return found

    def _strategy(
        self, context: PassContext, level: Level, *, walked: bool
    ) -> tuple[PartitionStrategy, str]:
        """The strategy that is asked for, or the level's, and its text form."""
        options = context.options
        level_text = level.strategy if options.goal.aim == "period" else level.objective_strategy
        if walked:
            level_text = LATENCY_STRATEGY
        wanted = level_text if options.partitioner == AUTO else options.partitioner
        return runnable(self.strategy or wanted)

    def _by_level(self, options: CompileOptions) -> bool:
        """Return whether the level chooses the strategy; what a user names answers alone."""
        return self.strategy is None and options.partitioner == AUTO

    def _found(
        self, model: ir.Model, context: PassContext, *, keep_states: bool = True
    ) -> replica_search.Pipelines:
        """The partition of the best number of replicas."""
        options = context.options
        level = load_level(options.level)
        known = _walked(model, options)
        division = replication.DIVISION.find(model)
        tiled = division is not None and (division.grain > 0 or division.tile_rows > 0)
        walked = options.goal.aim in ("latency", "max-latency") and tiled
        strategy, text = self._strategy(context, level, walked=walked)
        plan = FUSION_PLAN.get(model)
        if (measured := measured_note(model, plan, context.target)) is not None:
            context.report(measured)
        requested = RequestedPlacement.of(model, plan, options)
        problem = replication.PACKAGE_PROBLEM.find(model) if keep_states else None
        evaluator = replication.PACKAGE_EVALUATOR.find(model) if keep_states else None
        if problem is None:
            problem = build_problem(
                model,
                context.target,
                options.routing,
                plan,
                pins=requested.pins,
                keep_states=keep_states,
            )
            if options.chips is not None:
                problem = with_chips(problem, options.chips)
        _refuse_timeless(problem, context.target)
        if (note := untyped_note(model.graph, plan)) is not None:
            context.report(note)
        if keep_states and kept_states(model, problem) != (STATES.find(model) or States(())):
            contracted = units_with_states(model, context.target, plan, requested.pins)
            if (note := dropped_note(contracted.dropped)) is not None:
                context.report(note)
        chosen = replication.REPLICATION.find(model) or replication.Replication(
            1, problem.num_chips
        )
        refines = copied_rounds.REFINING_NAME in STRATEGIES and self._by_level(options)
        # Only the longest level searches all pieces of a division that it found from nothing.
        divided = bool(level.further and level.gap) and chosen.divided
        refines &= bool(chosen.known) and not known and (chosen.round > 1 or divided)
        if refines:
            # Searches from nothing take too long for units of all classes. Cuts of an order near
            # the best one overestimate memory, of which large problems off rings have too little.
            large = searches_cost_minutes(problem)
            strategy, text = runnable(WALKING if large else copied_rounds.REFINING)
        given, notes = requested.strategy(problem, model, options)
        for note in notes:
            context.report(note)
        if given is not None:
            strategy, text = given, given.name

        def solve_one(one: PartitionProblem, left: Budget) -> Partition:
            rng = context.rng("partition")
            return solve(one, strategy, rng, left, strategy_text=text)

        budgets = replica_search.Budgets(problem, context, level, text)
        evaluator = evaluator or evaluator_of(model, problem, context.target)
        _warn_without(evaluator, strategy, context)
        budgets = replace(budgets, evaluator=evaluator)

        answering = partial(given_answer, strategy_text=text)
        starts = _starts(problem, context, given)
        alone = given is not None or not self._by_level(options)

        def solve_share(share: replica_search.Share) -> replica_search.Solved:
            budget = budgets.of(share.problem, share.pipelines, gap=level.gap, known=share.known)
            return replica_search.solved(
                share.problem,
                solve_one,
                budget,
                persist=share.persist,
                given=answering if given is None else None,
                alone=alone,
                simulated=level.judged_pipelines or bool(starts),
                searches=share.searches,
            )

        if not options.goal.plain:
            from mcm_passes.pipeline.objective_run import ObjectiveRun

            goal = ObjectiveRun(strategy, text, given is not None, alone, known)
            problem = goal.prepared(problem, model, context, plan)
            return goal.found(problem, context, budgets)
        chosen = chosen if keep_states else _unplaced(chosen)
        if options.round not in (None, chosen.round):
            raise CompileError.of(
                "MCM-P065",
                f"rounds of {options.round} are asked for, and no pass `parallelize` runs",
                at="option passes",
                hint="add `parallelize` before `partition`, or leave out --round",
            )
        # Under a limit in seconds all of them are for the number that seems best.
        further = 0 if options.budget_s is not None or refines else level.further
        flight = in_flight(model, problem, context.target.cost_model(), options)
        serve_share = replica_search.with_sequences(solve_share, flight)
        return replica_search.solve_replicas(problem, chosen, serve_share, further, starts)


def _bounded(found: replica_search.Pipelines, level: Level) -> replica_search.Pipelines:
    best = found.partition
    # Classes multiply ideals, of which there are too many for a better bound.
    if found.replication.round > 1 or not level.divisions:
        return found
    effort_s = level.effort_s if level.further else QUICK_BOUND * level.effort_s
    bound = heavy_chains(found.problem, best.bound, best.period_s, effort_s)
    return replace(found, partition=replace(best, bound=bound))


def _starts(
    problem: PartitionProblem, context: PassContext, given: PartitionStrategy | None
) -> list[tuple[int, Ints]]:
    """Numbers of pipelines with placements on other targets, as far as they can be on this one."""
    found: list[tuple[int, Ints]] = []
    for one in context.known if given is None else ():
        count, chip_of = one["replicas"], one["chip_of"]
        each = problem.num_chips // count
        wanted = context.options.replicas
        if any(name not in chip_of for name in problem.names) or wanted not in (None, count):
            continue
        row = np.array([chip_of[name] for name in problem.names], np.int32)
        if row.max() < each and shares_alike(problem.machine, each, count):
            found.append((count, row))
    return found


def _walked(model: ir.Model, options: CompileOptions) -> tuple[Ints, ...]:
    """Placements with which the search of divisions found the least latency."""
    chosen = replication.REPLICATION.find(model)
    if chosen is None or options.goal.aim != "latency" or options.replicas:
        return ()
    return chosen.known


def _unplaced(chosen: replication.Replication) -> replication.Replication:
    """The choice without partitions of other units."""
    rows = tuple(replace(one, partitions=None) for one in chosen.considered)
    return replace(chosen, considered=rows)


def _refuse_timeless(problem: PartitionProblem, target: Target) -> None:
    """MCM-P002 where no period is longer than 0 s, so that there is no throughput to speak of."""
    units = problem.num_units
    # Descriptions of fabrics, whose chips are mapped before they are lowered, have no such key.
    lowers = isinstance(target, Lowers)
    launch = ", or give the target a `launch_overhead_ns` above 0" if lowers else ""
    if units and not problem.compute_s.any() and not problem.tensor_bytes.any():
        raise CompileError.of(
            "MCM-P002",
            "the model's ops take no time on the target, and all tensors are empty, so that "
            "no period is longer than 0 s",
            at="all ops of the graph",
            hint=f"compile a model whose tensors have elements{launch}",
        )


def _warn_without(
    evaluator: BatchEvaluator | None, strategy: PartitionStrategy, context: PassContext
) -> None:
    """MCM-T022 where a strategy asks the simulator of a target that has none for searches."""
    if evaluator is None and asks_evaluator(strategy):
        context.report(
            lacking(
                context.target,
                "evaluates_batches",
                needed_by=f"strategy '{strategy.name}'",
                severity=Severity.WARNING,
            )
        )


_NO_ROOM = frozenset({"MCM-P004", "MCM-P005", "MCM-P008", "MCM-P015", "MCM-P016", "MCM-P030"})
"""Codes of what may be otherwise where states take no space."""


def _for_want_of_room(error: CompileError) -> bool:
    return {d.code for d in error.diagnostics} <= _NO_ROOM


def _keeps_states(model: ir.Model, context: PassContext) -> bool:
    """Return whether the problem has states to give up."""
    pins = RequestedPlacement.of(model, FUSION_PLAN.get(model), context.options).pins
    return bool(units_with_states(model, context.target, FUSION_PLAN.get(model), pins).held)


def _given_up(model: ir.Model, error: CompileError) -> Diagnostic:
    pairs = STATES.get(model).pairs
    why = f"with them, {error.diagnostics[0].message}"
    note = dropped_note([(pair, why) for pair in pairs])
    assert note is not None, "there are states to give up"
    return note
