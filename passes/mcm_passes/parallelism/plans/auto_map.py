"""The planner `auto-map`: after Wang et al. 2020 (Auto-MAP), on clusters and packages of chips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.planning import PlanOptions, PlanResult
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan, check_plan
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.classes.provenance import explain
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.plans.auto_map_options import AutoMapOptions, Search
from mcm_passes.parallelism.plans.cluster_plan import plan_for_cluster
from mcm_passes.parallelism.plans.plan_annotation import annotate_plan
from mcm_passes.parallelism.plans.plan_application import planned_classes
from mcm_passes.parallelism.plans.plannable import make_plannable
from mcm_passes.parallelism.plans.ring_plan import plan_for_ring
from mcm_passes.parallelism.rules.graph_rules import missing_rules, rules_of
from mcm_passes.parallelism.sharded_graph.sharded_graph import shard_graph


@dataclass(frozen=True)
class AutoMap:
    """Data parallelism, operator partitioning and pipelines; see `mcm_compiler.contracts.planning`.

    Attributes:
        search: `exact`, or `dqn` to compare deep Q-learning with the exact methods.
        linkage: whether linked dimensions are decided at once, or one at a time.
    """

    name: ClassVar[str] = "auto-map"
    summary: ClassVar[str] = "data, operator and pipeline parallelism by linkage groups"

    search: Search = "exact"
    linkage: bool = True

    def prepare(self, model: ir.Model) -> None:
        """See `mcm_compiler.contracts.planning.Planner.prepare`."""
        make_plannable(model)

    def plan(
        self,
        model: ir.Model,
        name: str,
        target: Target | ClusterTarget,
        options: PlanOptions,
        progress: Callable[[str], None],
    ) -> PlanResult:
        """See `mcm_compiler.contracts.planning.Planner.plan`."""
        asked = AutoMapOptions(**vars(options), search=self.search, linkage=self.linkage)
        if isinstance(target, ClusterTarget):
            result = plan_for_cluster(model, name, target, asked, progress)
        else:
            result = plan_for_ring(model, name, target, asked, progress)
        return replace(result, diagnostics=(*missing_rules(model), *result.diagnostics))

    def why(
        self, model: ir.Model, tensor: str, dim: int, degree: int, plan: ParallelPlan | None
    ) -> str:
        """See `mcm_compiler.contracts.planning.Planner.why`."""
        classes = dimension_classes(model, rules_of(model))
        value = classes.value_by_name.get(tensor)
        rank = 0 if value is None or value.shape is None else len(value.shape)
        if dim >= rank:
            have = f"{rank} dimensions" if value is not None else "no such tensor"
            raise CompileError(
                Diagnostic(
                    "MCM-S063",
                    f"dim {dim} of {quote(tensor)} is asked about, and there is {have}",
                    at="option why",
                    hint="name a weight, an input or any other tensor of the model",
                )
            )
        divided = None if plan is None else plan.variables
        names = [weight.name or "" for weight in trainable_variables(model)]
        return explain(classes, tensor, dim, degree=degree, plan=divided, tensors=names)

    def annotated(self, model: ir.Model, plan: ParallelPlan) -> ir.Model:
        """See `mcm_compiler.contracts.planning.Planner.annotated`."""
        check_plan(plan, model)
        return annotate_plan(model, plan)

    def sharded(self, model: ir.Model, plan: ParallelPlan) -> ir.Model:
        """See `mcm_compiler.contracts.planning.Planner.sharded`."""
        check_plan(plan, model)
        copy = model.clone()
        classes, partitioned = planned_classes(copy, plan)
        shard_graph(copy, classes, partitioned, plan.degrees.operator)
        return copy
