"""The pass `parallelize`: operators split over chips, pipelines side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Self

import onnx_ir as ir

from mcm_compiler.components.cost_files import measured_costs
from mcm_compiler.contracts import replication
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.sharding import sharding
from mcm_compiler.contracts.sharding.divisions import DIVISION_BOUND, DividedKernel
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.annotations import known_keys
from mcm_compiler.graph.states import STATES
from mcm_compiler.machines.machine_builder import shares_alike
from mcm_compiler.options import AUTO, CompileOptions
from mcm_compiler.pipeline.passes import AnyKey, PassContext
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.variants.prepared_model import kept_copy
from mcm_passes.mapping.placement_constraints.assignments import RequestedPlacement
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.mapping.solving.lowered_evaluator import evaluator_of
from mcm_passes.mapping.solving.solve import with_chips
from mcm_passes.parallelism.division_bounds.division_bound import divided_kernels, division_bound
from mcm_passes.parallelism.divisions import comparison
from mcm_passes.parallelism.divisions.candidate import Candidate, free
from mcm_passes.parallelism.replicas import replicas, unrolling
from mcm_passes.pipeline.partition import PartitionPass
from mcm_passes.pipeline.shard_oversized import MIB, ShardOversized


@dataclass(frozen=True)
@checked(chips=at_least(0))
class Parallelize(ShardOversized):
    """Splits what is too large for a chip, and runs what is small several times side by side.

    The level searches what else is divided, unless an option of `shard_oversized` says so.

    Attributes:
        fraction: as in `shard_oversized`.
        tile_rows: as in `shard_oversized`.
        grain: as in `shard_oversized`.
        caches: as in `shard_oversized`.
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
        kernels = _undivided_kernels(model, context) or ()
        known, divisions = replication.DIVISION.find(model), self._divisions(model, context)
        original = kept_copy(model) if divisions else model
        found = whole = self._built(model, context)
        if divisions and (better := self._better(original, whole, context, divisions)):
            found = better
            model.graph = found.model.graph
            for key in known_keys():
                if key.on == "model" and key.present(found.model):
                    key.set(model, key.get(found.model))
        for note in found.notes:
            context.report(note)
        carried = not self.search and self.division != replication.Division()
        _settle(model, found, divided=found is not whole or carried)
        replication.DIVISION.set(model, known or found.division)
        kernels = () if _shares_reads(found.context) else kernels
        DIVISION_BOUND.set(model, division_bound(kernels, found.problem.limits))
        return found.divided or found.round is not None

    @property
    def division(self) -> replication.Division:
        """The division that the options give."""
        return replication.Division(self.fraction, self.tile_rows, self.grain, self.caches)

    @property
    def _searches(self) -> bool:
        return self.search and self.division == replication.Division()

    def _divisions(self, model: ir.Model, context: PassContext) -> int:
        """How many divisions may be built and compared.

        None where names of ops or times of them are given, a plan or a round says what is divided,
        or neither the plain period nor the latency of a ring counts.
        """
        options = context.options
        named = bool(options.pins) or options.assignment is not None
        soon = options.goal.aim in ("latency", "max-latency") and not options.replicas
        soon &= options.partitioner == AUTO
        named |= not options.goal.plain and not soon
        applied = sharding.APPLIED_PLAN.present(model) or replication.DIVISION.present(model)
        named |= (options.round or 1) > 1
        if named or applied or not self._searches or measured_costs(context.target.cost_model()):
            return 0
        divisions = load_level(options.level).divisions
        return divisions if options.goal.plain else max(divisions - 1, 0)

    def _built(self, model: ir.Model, context: PassContext) -> Candidate:
        """The model divided in place, with its problem."""
        notes: list[Diagnostic] = []
        try:
            return self._problem(model, context, notes)
        except CompileError:
            for note in notes:
                context.report(note)
            raise

    def _problem(self, model: ir.Model, context: PassContext, notes: list[Diagnostic]) -> Candidate:
        divided = super().run(model, replace(context, report=notes.append))
        self.state_choices(model)
        options = context.options
        classes, unbound = options.round or 1, free(options)
        shared = _shares_reads(context)
        unbound &= not shared
        if not unbound:
            unrolling.unroll(model, classes, options)
        if shared:
            unrolling.share_reads(model, classes, context.target)
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
        if unbound:
            own = unrolling.own_weights(model, classes)
            unrolling.unroll(model, classes, options)
            problem = unrolled(problem, classes, own)
        evaluator = evaluator_of(model, problem, context.target)
        return Candidate(
            str(self),
            self.division,
            model,
            divided or classes > 1,
            single,
            problem,
            evaluator,
            context,
            wanted,
            obstacle,
            notes,
        )

    def _better(
        self, original: ir.Model, whole: Candidate, context: PassContext, most: int
    ) -> Candidate | None:
        """The best of the divisions that the level may build; None where none is better."""
        quiet = replace(context, report=list[Diagnostic]().append)
        further = load_level(context.options.level).further

        def build(division: replication.Division, **given: int) -> Candidate | None:
            own = replace(quiet, options=replace(quiet.options, **given)) if given else quiet
            try:
                built = replace(self, **division._asdict())._built(kept_copy(original), own)
            except CompileError:
                return None
            return None if built.states < whole.states else built

        def promising() -> list[tuple[float, replication.Division]]:
            from mcm_passes.parallelism.divisions import division_search

            return division_search.promising(
                original,
                whole,
                sharding.SHARDING_PLAN.get(whole.model),
                context.target.cost_model(),
                self._limits(context.target),
                division_search.GRAINS if further else division_search.COARSE_GRAINS,
            )

        def searched_s() -> float:
            copied = kept_copy(whole.model)
            _settle(copied, whole, divided=False)
            try:
                found = PartitionPass().found(copied, quiet)
            except CompileError:
                return inf
            chosen = found.replication
            waits = (n.wait_s for n in chosen.considered if n.replicas == chosen.replicas)
            return max((found.partition.period_s / chosen.at_once, *waits))

        if further and _streams_most(whole):
            chips = whole.problem.num_chips
            found = comparison.streamed(whole, lambda how, n: build(how, replicas=chips, round=n))
            if found is not None:
                return found
        if not context.options.goal.plain:
            return comparison.sooner(whole, build, searched_s, most)
        return comparison.faster(whole, build, promising, searched_s, most)


def _settle(model: ir.Model, found: Candidate, *, divided: bool) -> None:
    """Unrolls the model of a candidate and sets what `partition` reads."""
    chosen, problem, evaluator = found.chosen(), found.problem, found.evaluator
    if (own := found.round) is not None:
        unrolling.unroll(model, own.replication.round, found.context.options)
        chosen, problem, evaluator = own.replication, own.problem, own.evaluator
    replication.PACKAGE_PROBLEM.set(model, problem)
    replication.PACKAGE_EVALUATOR.set(model, evaluator)
    replication.REPLICATION.set(model, replace(chosen, divided=divided))


def _streams_most(whole: Candidate) -> bool:
    """True if weights or activations fit no package, so that each chip may as well stream all.

    One read of the memory off the package then has to serve all chips, which run the same.
    """
    problem, options = whole.problem, whole.context.options
    alone = options.replicas is None and options.round is None and whole.flight is None
    shared = not problem.on_ring and problem.machine.reads_once
    if not free(options) or not alone or whole.obstacle or not shared:
        return False
    beyond = problem.weight_bytes.sum() > sum(problem.limits.sram_bytes)
    return bool(beyond) or whole.periods.seconds == inf


def _shares_reads(context: PassContext) -> bool:
    """Return whether classes of a round share rows, of which no bound over divisions knows."""
    return (context.options.round or 1) > 1 and context.target.limits.stream_bytes_per_s > 0.0


def _undivided_kernels(model: ir.Model, context: PassContext) -> tuple[DividedKernel, ...] | None:
    """The kernels that a bound over all divisions is about; None where it would mean nothing."""
    divided = sharding.APPLIED_PLAN.present(model) or sharding.SHARDING_PLAN.present(model)
    if divided or STATES.present(model) or not context.options.goal.plain:
        return None
    return divided_kernels(model, context.target, FUSION_PLAN.get(model))


def _refuse_number(
    problem: PartitionProblem, options: CompileOptions, wanted: int, obstacle: str
) -> None:
    if wanted > problem.num_chips:
        obstacle = f"there are {problem.num_chips} chips"
    elif not obstacle:
        each = problem.num_chips // wanted
        if not shares_alike(problem.machine, each, wanted):
            obstacle = f"{wanted} shares of {each} chips are not alike"
        elif beyond := [name for name, place in options.pins if place >= each]:
            obstacle = f"{quote(beyond[0])} is pinned to a place beyond the {each} chips of each"
    if obstacle and wanted > 1:
        raise CompileError.of(
            "MCM-P018",
            f"{wanted} replicas are asked for, and {obstacle}",
            at="option replicas" if options.replicas else "degree of data parallelism",
        )
