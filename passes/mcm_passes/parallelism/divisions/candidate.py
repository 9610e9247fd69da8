"""A model as one division divided it, with what is known of its periods."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts import replication
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Budget, Ints, PartitionProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.options import AUTO, CompileOptions
from mcm_compiler.pipeline.passes import PassContext
from mcm_passes.mapping.search.named import runnable
from mcm_passes.mapping.solving.objective_solve import solve_for
from mcm_passes.parallelism.copies import copied_rounds
from mcm_passes.parallelism.replicas import in_flight, replicas, unrolling

LATENCY_STRATEGY = "frontier{walked=true}"
"""Finds latencies of divided graphs, most of which have too many ideals."""

ROUND_SEARCHED = 0.02
"""Share by which searches shortened periods of rounds at most: dp has balanced their stages."""


class Periods(NamedTuple):
    """Periods that are known of a model as it is divided.

    Attributes:
        seconds: between inferences with the first partition, simulated where the level does;
            infinite where none is known.
        analytic_s: the same under the analytic model.
        least_s: that no partition can undercut, under the analytic model; of a round, what a search
            is expected to find at best.
    """

    seconds: float
    analytic_s: float
    least_s: float


def periods_of(chosen: replication.Replication) -> Periods:
    """Of a choice among the numbers of pipelines."""
    own = next((one for one in chosen.considered if one.replicas == chosen.replicas), None)
    bounds = (one.bound_s for one in chosen.considered if one.bound_s is not None)
    if own is None or own.served_s is None or own.analytic_s is None:
        return Periods(inf, inf, min(bounds, default=0.0))
    analytic_s = max(own.analytic_s, own.wait_s)
    return Periods(own.served_s, analytic_s, min(bounds, default=0.0))


def free(options: CompileOptions) -> bool:
    """True if the level places units, anywhere, for the plain period."""
    bound = options.pins or options.assignment is not None or options.forbidden_chips
    return options.goal.plain and options.partitioner == AUTO and not bound


@dataclass(eq=False)
class Candidate:
    """A model as one division divided it, with what it takes to compare it.

    Attributes:
        step: text form of the pass that divided it.
        division: what it divided by.
        model: the divided model.
        divided: whether the graph changed.
        single: the problem of one inference on all chips.
        problem: the same, or that of the round that options give.
        evaluator: the simulator for `problem`.
        context: of the pass.
        wanted: number of replicas that is asked for.
        obstacle: why there can be only one.
        notes: what the pass reported.
        below_s: seconds that it has to undercut.
        placed: the placement of the least latency.
    """

    step: str
    division: replication.Division
    model: ir.Model
    divided: bool
    single: PartitionProblem
    problem: PartitionProblem
    evaluator: BatchEvaluator | None
    context: PassContext
    wanted: int | None
    obstacle: str
    notes: list[Diagnostic] = field(default_factory=list[Diagnostic])
    below_s: float = inf
    placed: Ints | None = None

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """Numbers of replicas that count, with the chips of each."""
        chips = self.problem.num_chips
        if self.obstacle or self.wanted:
            return [(self.wanted or 1, chips // (self.wanted or 1))]
        return equal_shares(chips, self.problem.machine)

    @cached_property
    def compared(self) -> replication.Replication:
        """The best of the numbers, those with figures that may be faster than all else."""
        simulated = load_level(self.context.options.level).judged_pipelines
        below_s = self.below_s
        if below_s < inf and self._found is not None:
            below_s = self._found.seconds
        return replicas.choose_replicas(
            self.problem,
            self.evaluator,
            simulated=simulated,
            numbers=self.numbers,
            below_s=below_s,
            flight=self.flight,
        )

    @property
    def states(self) -> int:
        """How many states stay on chips."""
        return 0 if self.flight is None else int(np.count_nonzero(self.flight.each_bytes))

    @cached_property
    def flight(self) -> in_flight.InFlight | None:
        """Sequences whose states the chips hold; None without any."""
        costs, options = self.context.target.cost_model(), self.context.options
        return in_flight.in_flight(self.model, self.problem, costs, options)

    @cached_property
    def fastest(self) -> copied_rounds.Round | None:
        """The fastest round under the analytic model, if it is faster than the best number."""
        if (found := self._found) is None:
            return None
        most_s = periods_of(self.compared).seconds * (1.0 - copied_rounds.LEAST_GAIN)
        return None if found.seconds > most_s else found

    @property
    def rounds(self) -> int:
        """Most inferences that the level may let a pipeline compute together."""
        options = self.context.options
        most = load_level(options.level).rounds
        if options.round is not None or most < 2 or not free(options):
            return 1
        return 1 if unrolling.round_obstacle(self.model, options) else most

    @cached_property
    def _found(self) -> copied_rounds.Round | None:
        if (most := self.rounds) < 2:
            return None
        below_s = self.below_s
        if below_s == inf:
            below_s = periods_of(self.compared).seconds * (1.0 - copied_rounds.LEAST_GAIN)
        return copied_rounds.fastest_round(self.problem, self.numbers, range(2, most + 1), below_s)

    @cached_property
    def round(self) -> copied_rounds.ChosenRound | None:
        """The same, if the simulator confirms it."""
        if self.fastest is None:
            return None
        options, target = self.context.options, self.context.target
        return copied_rounds.confirmed_round(
            self.model, self.problem, self.compared, self.fastest, options, target
        )

    @property
    def periods(self) -> Periods:
        """Of the fastest round, or of the best of the numbers."""
        found = periods_of(self.compared)
        if self.fastest is None:
            return found
        seconds = self.fastest.seconds
        return Periods(seconds, seconds, seconds * (1.0 - ROUND_SEARCHED))

    def chosen(self) -> replication.Replication:
        """The number of replicas that is compiled."""
        options = self.context.options
        classes = options.round or 1
        if classes > 1 and self.problem is not self.single:
            found = copied_rounds.given_round(self.single, self.numbers, classes)
            if found is not None:
                return found
        if self.wanted is None:
            if self.obstacle or not options.goal.plain:
                # The partition decides how often it stands there, if not for the period alone.
                one = replication.Replication(1, self.problem.num_chips, round=classes)
                return one if self.placed is None else one.placed(self.placed)
            return replace(self.compared, round=classes)
        return replace(replicas.given_replicas(self.problem, self.wanted), round=classes)


def soonest(built: Candidate) -> tuple[Periods, Ints | None]:
    """When one inference is answered, and where units are then; infinite if nothing is found.

    A limit on the latency is soon enough.
    """
    strategy, text = runnable(LATENCY_STRATEGY)
    rng = built.context.rng("partition")
    limit_s = built.context.options.goal.max_latency_s
    budget = Budget(objective=Objective("latency"), enough_s=limit_s or 0.0)
    try:
        found = solve_for(built.problem, strategy, rng, budget, strategy_text=text)
    except CompileError:
        return Periods(inf, inf, 0.0), None
    assert found.figures is not None
    value, bound = found.figures.value, found.figures.bound
    return Periods(value, value, bound), found.chip_of
