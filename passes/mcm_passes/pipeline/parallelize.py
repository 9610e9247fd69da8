"""The pass `parallelize`: operators split over chips, pipelines side by side."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import ClassVar, Self

import onnx_ir as ir

from mcm_compiler.components.cost_files import measured_costs
from mcm_compiler.contracts import replication
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import Budget, Ints, PartitionProblem
from mcm_compiler.contracts.sharding import sharding
from mcm_compiler.contracts.sharding.divisions import DIVISION_BOUND, DividedKernel
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.graph.annotations import known_keys
from mcm_compiler.graph.states import STATES
from mcm_compiler.machines.machine_builder import equal_shares, shares_alike
from mcm_compiler.options import AUTO, CompileOptions
from mcm_compiler.pipeline.passes import AnyKey, PassContext
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_compiler.text.units import seconds_text
from mcm_compiler.variants.prepared_model import kept_copy
from mcm_passes.mapping.bounds.bounds import total_work
from mcm_passes.mapping.placement_constraints.assignments import RequestedPlacement
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.mapping.search.named import runnable
from mcm_passes.mapping.solving.lowered_evaluator import evaluator_of
from mcm_passes.mapping.solving.objective_solve import solve_for
from mcm_passes.mapping.solving.solve import with_chips
from mcm_passes.parallelism.copies import chosen_round, round_search
from mcm_passes.parallelism.division_bounds.division_bound import divided_kernels, division_bound
from mcm_passes.parallelism.divisions import division_search
from mcm_passes.parallelism.replicas import replicas, unrolling
from mcm_passes.pipeline.shard_oversized import MIB, ShardOversized

FOR_ROUNDS = replication.Division(fraction=0.3)
"""Division that is compared besides where rounds help: small slices leave copies of stages memory
for others."""


FOR_MEMORY = replication.Division(fraction=0.25, tile_rows=4)
"""Division that is tried first where no partition is found: few rows at a time need little memory
for activations."""


@dataclass(frozen=True)
@checked(chips=at_least(0))
class Parallelize(ShardOversized):
    """Splits what is too large for a chip, and runs what is small several times side by side.

    The level searches what else is divided, unless an option of `shard_oversized` says so.

    Attributes:
        fraction: as in `shard_oversized`.
        tile_rows: as in `shard_oversized`.
        grain: as in `shard_oversized`.
        sram_mib: as in `shard_oversized`; also for the choice of ops that are copied.
        chips: chips that ops are copied for, if fewer than the target's; 0 for the target's.
        search: whether the level may divide more than what fits no chip; without, options that
            divide count as those that a level found.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "parallelize"
    summary: ClassVar[str] = "split what no chip can hold, run small models several times"
    requires: ClassVar[tuple[AnyKey, ...]] = (NODE_COST, FUSION_PLAN)
    provides: ClassVar[tuple[AnyKey, ...]] = (
        *ShardOversized.provides,
        replication.PACKAGE_PROBLEM,
        replication.PACKAGE_EVALUATOR,
        replication.REPLICATION,
        replication.COPIED_FOR,
        replication.DIVISION,
        DIVISION_BOUND,
    )

    chips: int = 0
    search: bool = True

    def for_chips_of(self, chips: int, sram_bytes: int) -> Self:
        """See `Pass`."""
        fewest = min(filter(None, (chips, self.chips)), default=0)
        return replace(super().for_chips_of(chips, sram_bytes), chips=fewest)

    def divided_as(self, division: replication.Division) -> Self:
        """See `Pass`."""
        return replace(self, search=False, **division._asdict()) if self._searches else self

    def state_choices(self, model: ir.Model) -> None:
        """See `Pass`."""
        copied_for = replication.CopiedFor(self.chips, int(self.sram_mib * MIB))
        replication.COPIED_FOR.set(model, copied_for)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `SHARDING_PLAN`, `PACKAGE_PROBLEM`, `PACKAGE_EVALUATOR`, `REPLICATION`, `DIVISION`.

        Raises:
            CompileError: as `ShardOversized.run`, `build_problem` and `with_chips`; MCM-F010 to
                MCM-F012 for pins; MCM-P018 for a number of replicas that cannot be, MCM-P065
                for a round that cannot be.
        """
        kernels = _undivided_kernels(model, context)
        known, divisions = replication.DIVISION.find(model), self._divisions(model, context)
        original = kept_copy(model) if divisions else model
        found = self._built(model, context)
        if divisions and (better := self._better(original, found, context, divisions)):
            found = better
            model.graph = found.model.graph
            for key in known_keys():
                if key.on == "model" and key.present(found.model):
                    key.set(model, key.get(found.model))
        for note in found.notes:
            context.report(note)
        chosen, problem, evaluator = found.chosen(), found.problem, found.evaluator
        if found.round is not None:
            unrolling.unroll(model, found.round.replication.round, context.options)
            chosen = found.round.replication
            problem, evaluator = found.round.problem, found.round.evaluator
        replication.PACKAGE_PROBLEM.set(model, problem)
        replication.PACKAGE_EVALUATOR.set(model, evaluator)
        carried = not self.search and self.division != replication.Division()
        level_divides = found.step is not self or carried
        replication.REPLICATION.set(model, replace(chosen, divided=level_divides))
        replication.DIVISION.set(model, known or found.step.division)
        DIVISION_BOUND.set(model, division_bound(kernels or (), found.problem.limits))
        return found.divided or found.round is not None

    @property
    def division(self) -> replication.Division:
        """The division that the options give."""
        return replication.Division(self.fraction, self.tile_rows, self.grain)

    @property
    def _searches(self) -> bool:
        return self.search and self.division == replication.Division()

    def _divisions(self, model: ir.Model, context: PassContext) -> int:
        """How many divisions may be built and compared.

        None where names of ops or times of them are given, a plan or a round says what is divided,
        or neither the plain period nor the latency of a ring is all that counts.
        """
        options = context.options
        named = bool(options.pins) or options.assignment is not None
        soon = options.goal.aim == "latency" and not options.replicas
        soon &= options.partitioner == AUTO
        named |= not options.goal.plain and not soon
        applied = sharding.APPLIED_PLAN.present(model) or replication.DIVISION.present(model)
        named |= (options.round or 1) > 1
        if named or applied or not self._searches or measured_costs(context.target.cost_model()):
            return 0
        divisions = load_level(options.level).divisions
        return divisions if options.goal.plain else divisions // 2

    def _built(self, model: ir.Model, context: PassContext) -> _Built:
        """The model divided in place, with its problem."""
        notes: list[Diagnostic] = []
        try:
            return self._problem(model, context, notes)
        except CompileError:
            for note in notes:
                context.report(note)
            raise

    def _problem(self, model: ir.Model, context: PassContext, notes: list[Diagnostic]) -> _Built:
        divided = super().run(model, replace(context, report=notes.append))
        self.state_choices(model)
        options = context.options
        classes, free = options.round or 1, _free(options)
        if not free:
            unrolling.unroll(model, classes, options)
        plan = FUSION_PLAN.get(model)
        pins = RequestedPlacement.of(model, plan, options).pins
        problem = build_problem(model, context.target, options.routing, plan, pins=pins)
        obstacle = replicas.replica_obstacle(problem, options, context.target.name)
        applied = sharding.APPLIED_PLAN.find(model)
        wanted = options.replicas or (applied.plan.degrees.data if applied is not None else None)
        if options.chips is not None:
            problem = with_chips(problem, options.chips, 1 if obstacle else wanted)
        if wanted:
            _refuse_number(problem, options, wanted, obstacle)
        single = problem
        if free:
            own = unrolling.own_weights(model, classes)
            unrolling.unroll(model, classes, options)
            problem = unrolled(problem, classes, own)
        evaluator = evaluator_of(model, problem, context.target)
        divided |= classes > 1
        return _Built(
            self, model, divided, single, problem, evaluator, context, wanted, obstacle, notes
        )

    def _better(
        self, original: ir.Model, whole: _Built, context: PassContext, most: int
    ) -> _Built | None:
        """The best of the divisions that shorten the period; None where none does."""
        level, unheard = load_level(context.options.level), list[Diagnostic]()
        quiet = replace(context, report=unheard.append)
        if whole.problem.num_units > replicas.MAX_BOUND_UNITS:
            return None
        if not context.options.goal.plain:
            return self._sooner(original, whole, quiet, most)
        periods = whole.periods
        least_s = total_work(whole.problem).seconds
        if whole.fastest is not None:
            least_s = round_search.least_s(whole.problem)
        near = division_search.NEAR_WORK if level.further else division_search.NEAR_ENOUGH
        if periods.analytic_s <= near * least_s:
            return None
        ranked = division_search.promising(
            original,
            whole.model,
            whole.problem,
            sharding.SHARDING_PLAN.get(whole.model),
            context.target.cost_model(),
            self._limits(context.target),
            whole.numbers,
        )
        best: tuple[float, _Built] | None = None
        ranked = ranked[:most]
        if whole.fastest is not None and FOR_ROUNDS not in ranked:
            ranked.append(FOR_ROUNDS)
        if periods.seconds == inf and most > 1:
            ranked.insert(0, FOR_MEMORY)
        for division in ranked:
            step = replace(self, **division._asdict())
            try:
                built = step._built(kept_copy(original), quiet)
            except CompileError:
                continue
            built.below_s = periods.seconds if best is None else best[0]
            found = built.periods
            gains = division_search.gains(found, periods, searches=level.further > 0)
            if gains and (best is None or found.seconds < best[0]):
                best = found.seconds, built
                if division == FOR_MEMORY:
                    break
        # By the analytic model alone, a round is no reason for a division.
        if best is None or (best[1].fastest is not None and best[1].round is None):
            return None
        best[1].notes.append(_gain_note(best[1].step, best[0], periods.seconds, "a period"))
        return best[1]

    def _sooner(
        self, original: ir.Model, whole: _Built, quiet: PassContext, most: int
    ) -> _Built | None:
        """The division that answers one inference soonest; None if none is sooner than whole."""
        if not whole.problem.on_ring or whole.problem.routing == "strict":
            return None
        before = _soonest(whole)[0]
        best, least = None, before
        for grain in division_search.LATENCY_GRAINS[:most]:
            try:
                built = replace(self, grain=grain)._built(kept_copy(original), quiet)
            except CompileError:
                continue
            found, placed = _soonest(built)
            if division_search.gains(found, before, searches=True) and found < least:
                best, least = replace(built, placed=placed), found
        if best is not None:
            best.notes.append(_gain_note(best.step, least.seconds, before.seconds, "a latency"))
        return best


@dataclass(eq=False)
class _Built:
    """A model as one step divided it, with what it takes to compare it."""

    step: Parallelize
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
        """The best of the numbers, all of them with figures."""
        simulated = load_level(self.context.options.level).judged_pipelines
        return replicas.choose_replicas(
            self.problem, self.evaluator, simulated=simulated, numbers=self.numbers
        )

    @cached_property
    def fastest(self) -> round_search.Round | None:
        """The fastest round under the analytic model, if it is faster than the best number.

        It has to undercut `below_s`, too, or it would not be compiled.
        """
        options = self.context.options
        most = load_level(options.level).rounds
        if options.round is not None or most < 2 or not _free(options):
            return None
        if unrolling.round_obstacle(self.model, options):
            return None
        below_s = min(division_search.periods_of(self.compared).seconds, self.below_s)
        below_s *= 1.0 - chosen_round.LEAST_GAIN
        return round_search.fastest_round(self.problem, self.numbers, range(2, most + 1), below_s)

    @cached_property
    def round(self) -> chosen_round.ChosenRound | None:
        """The same, if the simulator confirms it."""
        if self.fastest is None:
            return None
        options, target = self.context.options, self.context.target
        return chosen_round.confirmed_round(
            self.model, self.problem, self.compared, self.fastest, options, target
        )

    @property
    def periods(self) -> division_search.Periods:
        """Of the fastest round, or of the best of the numbers."""
        found = division_search.periods_of(self.compared)
        if self.fastest is None:
            return found
        seconds = self.fastest.seconds
        return division_search.Periods(seconds, seconds, min(found.least_s, seconds))

    def chosen(self) -> replication.Replication:
        """The number of replicas that is compiled."""
        options = self.context.options
        classes = options.round or 1
        if classes > 1 and _free(options):
            found = chosen_round.given_round(self.single, self.numbers, classes)
            if found is not None:
                return found
        if self.wanted is None:
            if self.obstacle or not options.goal.plain:
                # The partition decides how often it stands there, if not for the period alone.
                one = replication.Replication(1, self.problem.num_chips, round=classes)
                return one if self.placed is None else one.placed(self.placed)
            return replace(self.compared, round=classes)
        return replace(replicas.given_replicas(self.problem, self.wanted), round=classes)


def _soonest(built: _Built) -> tuple[division_search.Periods, Ints | None]:
    """When one inference is answered, and where units are then; infinite if nothing is found."""
    strategy, text = runnable(division_search.LATENCY_STRATEGY)
    rng, name = built.context.rng("partition"), built.context.target.cost_model().name
    budget = Budget(objective=built.context.options.goal)
    texts = {"strategy_text": text, "cost_model": name}
    try:
        found = solve_for(built.problem, strategy, rng, budget, **texts)
    except CompileError:
        return division_search.Periods(inf, inf, 0.0), None
    assert found.figures is not None
    value, bound = found.figures.value, found.figures.bound
    return division_search.Periods(value, value, bound), found.chip_of


def _undivided_kernels(model: ir.Model, context: PassContext) -> tuple[DividedKernel, ...] | None:
    """The kernels that a bound over all divisions is about; None where it would mean nothing."""
    divided = sharding.APPLIED_PLAN.present(model) or sharding.SHARDING_PLAN.present(model)
    if divided or STATES.present(model) or not context.options.goal.plain:
        return None
    return divided_kernels(model, context.target, FUSION_PLAN.get(model))


def _free(options: CompileOptions) -> bool:
    """True if the level places units, anywhere, for the plain period."""
    bound = options.pins or options.assignment is not None or options.forbidden_chips
    return options.goal.plain and options.partitioner == AUTO and not bound


def _refuse_number(
    problem: PartitionProblem, options: CompileOptions, wanted: int, obstacle: str
) -> None:
    if wanted > problem.num_chips:
        obstacle = f"there are {problem.num_chips} chips"
    elif not obstacle:
        each = problem.num_chips // wanted
        if not shares_alike(problem.machine, each, wanted):
            obstacle = f"{wanted} shares of {each} chips are not alike"
    if obstacle and wanted > 1:
        raise CompileError.of(
            "MCM-P018",
            f"{wanted} pipelines side by side are asked for, and {obstacle}",
            at="option replicas" if options.replicas else "degree of data parallelism",
        )


def _gain_note(step: Parallelize, divided_s: float, whole_s: float, figure: str) -> Diagnostic:
    """MCM-P071: the level divides more than what fits no chip."""
    before = f", {1 - divided_s / whole_s:.1%} less than undivided" if whole_s < inf else ""
    return Diagnostic(
        "MCM-P071",
        f"`{step}` was found, with {figure} of {seconds_text(divided_s)} by a first partition"
        f"{before}",
        at="pass 'parallelize'",
    )
