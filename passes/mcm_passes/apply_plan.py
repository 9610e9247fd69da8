"""The pass `apply_plan`: a plan of `mcmc parallelize` put to work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.parallel_plan import check_plan, read_plan
from mcm_compiler.passes import AnyKey, Pass, PassContext
from mcm_compiler.sharding import APPLIED_PLAN, AppliedPlan
from mcm_passes.parallel.plan_application import planned_classes
from mcm_passes.parallel.plannable import make_plannable
from mcm_passes.parallel.sharded_graph import shard_graph


@dataclass(frozen=True)
class ApplyPlan(Pass):
    """Divides the ops of a model as a plan says; outputs stay the same.

    It comes first, since a plan speaks of the model as it was given.

    Attributes:
        file: path of the plan.
    """

    name: ClassVar[str] = "apply_plan"
    summary: ClassVar[str] = "divide ops over chips as a plan of mcmc parallelize says"
    provides: ClassVar[tuple[AnyKey, ...]] = (APPLIED_PLAN,)

    file: str

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Sets `APPLIED_PLAN`.

        Raises:
            CompileError: MCM-S020 to MCM-S022 for the file, MCM-S061 and MCM-S062 for what cannot
                be divided.
        """
        storage_bytes = context.target.cost_model().storage_bytes
        plan = read_plan(Path(self.file))
        make_plannable(model)
        check_plan(plan, model, self.file)
        classes, partitioned = planned_classes(model, plan, self.file)
        sizes = {name: storage_bytes(v) for name, v in model.graph.initializers.items()}
        made = shard_graph(model, classes, partitioned, plan.degrees.operator)
        operators = tuple(
            replace(o, weight_bytes=sizes.get(o.weight, o.weight_bytes)) for o in made.operators
        )
        APPLIED_PLAN.set(model, AppliedPlan(plan, operators, made.tensors))
