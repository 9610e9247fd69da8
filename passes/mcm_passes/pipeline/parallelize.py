"""The pass `parallelize`: operators split over chips, pipelines side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import onnx_ir as ir

from mcm_compiler.contracts import replication
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.sharding.sharding import APPLIED_PLAN
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine_builder import shares_alike
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import AnyKey, PassContext
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.mapping.placement_constraints.assignments import RequestedPlacement
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.solving.lowered_evaluator import evaluator_of
from mcm_passes.mapping.solving.solve import with_chips
from mcm_passes.parallelism.replicas import replicas, unrolling
from mcm_passes.pipeline.shard_oversized import MIB, ShardOversized


@dataclass(frozen=True)
@checked(chips=at_least(0))
class Parallelize(ShardOversized):
    """Splits what is too large for a chip, and runs what is small several times side by side.

    Attributes:
        fraction: as in `shard_oversized`.
        tile_rows: as in `shard_oversized`.
        sram_mib: as in `shard_oversized`; also for the choice of ops that are copied.
        chips: chips that ops are copied for, if fewer than the target's; 0 for the target's.

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
    )

    chips: int = 0

    def for_chips_of(self, chips: int, sram_bytes: int) -> Self:
        """See `Pass`."""
        fewest = min(filter(None, (chips, self.chips)), default=0)
        return replace(super().for_chips_of(chips, sram_bytes), chips=fewest)

    def state_choices(self, model: ir.Model) -> None:
        """See `Pass`."""
        copied_for = replication.CopiedFor(self.chips, int(self.sram_mib * MIB))
        replication.COPIED_FOR.set(model, copied_for)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `SHARDING_PLAN`, `PACKAGE_PROBLEM`, `PACKAGE_EVALUATOR` and `REPLICATION`.

        Raises:
            CompileError: as `ShardOversized.run`, `build_problem` and `with_chips`; MCM-F010 to
                MCM-F012 for pins; MCM-P018 for a number of pipelines that cannot be,
                MCM-P065 for a round that cannot be.
        """
        divided = super().run(model, context)
        self.state_choices(model)
        options = context.options
        classes = options.round or 1
        unrolling.unroll(model, classes, options)
        plan = FUSION_PLAN.get(model)
        pins = RequestedPlacement.of(model, plan, options).pins
        problem = build_problem(model, context.target, options.routing, plan, pins=pins)
        obstacle = replicas.replica_obstacle(problem, options, context.target.name)
        applied = APPLIED_PLAN.find(model)
        wanted = options.replicas or (applied.plan.degrees.data if applied is not None else None)
        if options.chips is not None:
            pipelines = 1 if obstacle else wanted
            problem = with_chips(problem, options.chips, pipelines)
        evaluator = evaluator_of(model, problem, context.target)
        replication.PACKAGE_PROBLEM.set(model, problem)
        replication.PACKAGE_EVALUATOR.set(model, evaluator)
        chosen = _replication(problem, options, wanted, obstacle, evaluator)
        replication.REPLICATION.set(model, replace(chosen, round=classes))
        return divided or classes > 1


def _replication(
    problem: PartitionProblem,
    options: CompileOptions,
    wanted: int | None,
    obstacle: str,
    evaluator: BatchEvaluator | None,
) -> replication.Replication:
    if wanted is None:
        if obstacle or not options.goal.plain:
            # The partition decides how often it stands there, where it is not for the period alone.
            return replication.Replication(1, problem.num_chips)
        simulated = load_level(options.level).judged_pipelines
        return replicas.choose_replicas(problem, evaluator, simulated=simulated)
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
    return replicas.given_replicas(problem, wanted)
