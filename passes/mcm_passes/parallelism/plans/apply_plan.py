"""The pass `apply_plan`: a plan of `mcmc parallelize`, or of a planner asked now, put to work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.planning import PlanOptions, PlanRequest, planned_by, planner_of
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan, check_plan, read_plan
from mcm_compiler.contracts.sharding.sharding import APPLIED_PLAN, AppliedPlan
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.registry import PLANNERS
from mcm_passes.parallelism.plans.auto_map import make_plannable, planned_classes
from mcm_passes.parallelism.sharded_graph.sharded_graph import shard_graph


@dataclass(frozen=True)
class ApplyPlan(Pass):
    """Divides the ops of a model as a plan says; outputs stay the same.

    It comes first, since a plan speaks of the model as it was given.

    Attributes:
        file: path of the plan; empty where a planner makes it.
        planner: text form of the planner that makes it; empty where it is in a file.
        operator: devices over which a planner is to divide ops; None lets it choose.

    Raises:
        ValueError: if there is neither a file nor a planner, or both.
    """

    name: ClassVar[str] = "apply_plan"
    summary: ClassVar[str] = "divide ops over chips as a plan of mcmc parallelize says"
    provides: ClassVar[tuple[AnyKey, ...]] = (APPLIED_PLAN,)

    file: str = ""
    planner: str = ""
    operator: int | None = None

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.planner):
            raise ValueError("it takes either file or planner")
        if self.file and self.operator is not None:
            raise ValueError("operator is for a planner, and file is given")

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Sets `APPLIED_PLAN`.

        Raises:
            CompileError: MCM-S020 to MCM-S022 for the file, MCM-U001 to MCM-U003 for the planner's
                text, MCM-S061 and MCM-S062 for what cannot be divided, and as the planner.
        """
        storage_bytes = context.target.cost_model().storage_bytes
        made_by = self.file or f"planner '{self.planner}'"
        plan = read_plan(Path(self.file)) if self.file else self._made(model, context)
        if plan.target != context.target.name:
            context.report(_of_another_target(plan, context.target, made_by))
        make_plannable(model)
        check_plan(plan, model, made_by)
        classes, partitioned = planned_classes(model, plan, made_by)
        sizes = {name: storage_bytes(v) for name, v in model.graph.initializers.items()}
        made = shard_graph(model, classes, partitioned, plan.degrees.operator)
        operators = tuple(
            replace(o, weight_bytes=sizes.get(o.weight, o.weight_bytes)) for o in made.operators
        )
        APPLIED_PLAN.set(model, AppliedPlan(plan, operators, made.tensors))

    def _made(self, model: ir.Model, context: PassContext) -> ParallelPlan:
        planner = planner_of(self.planner)
        with PLANNERS.at_work(self.planner.partition("{")[0].strip()):
            planner.prepare(model)
        options = PlanOptions(seed=context.options.seed, operator=self.operator)
        request = PlanRequest(
            model=model,
            name=model.graph.name or "model",
            target=context.target,
            options=options,
            seed=options.seed,
            progress=context.progress,
        )
        result = planned_by(self.planner, planner, request)
        for found in result.diagnostics:
            context.report(found)
        return result.plan


def _of_another_target(plan: ParallelPlan, target: Target, made_by: str) -> Diagnostic:
    return Diagnostic(
        "MCM-S066",
        f"the plan was made for {quote(plan.target)}, and {quote(target.name)} is compiled for: "
        f"ops are divided into its {plan.degrees.operator} parts, its pipeline is not used",
        at=made_by,
    )
