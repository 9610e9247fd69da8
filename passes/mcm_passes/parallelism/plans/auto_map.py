"""The planner `auto-map`: after Wang et al. 2020 (Auto-MAP), on clusters and packages of chips."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.planning import PlanAnswer, PlanRequest
from mcm_compiler.contracts.sharding.parallel_plan import REPLICATED, ParallelPlan, check_plan
from mcm_compiler.contracts.sharding.sharding import shard_value
from mcm_compiler.diagnostics import CompileError, quote
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.classes.provenance import explain
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.pipelines.node_chain import chain_nodes
from mcm_passes.parallelism.plans.cluster_plan import plan_for_cluster
from mcm_passes.parallelism.plans.operator_choice import AutoMapOptions, Search
from mcm_passes.parallelism.plans.plan_application import make_plannable, planned_classes
from mcm_passes.parallelism.plans.ring_plan import plan_for_ring
from mcm_passes.parallelism.rules.graph_rules import missing_rules, rules_of
from mcm_passes.parallelism.sharded_graph.sharded_graph import shard_graph

MULTI_DEVICE_IR_VERSION = 11
"""The IR version that introduced the fields."""


def annotate_plan(model: ir.Model, plan: ParallelPlan) -> ir.Model:
    """A copy of a model with the plan written on its ops.

    Each op has the `ShardingSpec` of its divided operands and results, over the devices of its
    stage, and the number of its stage. Graph inputs that replicas have parts of are divided where
    they are read.

    Args:
        model: that the plan is for; see `check_plan`.
        plan: what to write.

    Raises:
        CompileError: as `planned_classes`.
    """
    classes, partitioned = planned_classes(model, plan)
    numbers = {node.name: index for index, node in enumerate(classes.ruled.nodes)}
    copy = model.clone()
    copy.ir_version = max(copy.ir_version, MULTI_DEVICE_IR_VERSION)
    degrees = plan.degrees
    count = degrees.data * degrees.operator * degrees.pipeline
    configuration = copy.add_device_configuration(
        "mcm-plan", device_names=[f"device_{index}" for index in range(count)]
    )
    stage_of = _stages(model, plan)
    each = count // degrees.pipeline
    batch = {name: dim for name, dim in plan.inputs.items() if dim != REPLICATED}
    for node in copy.graph:
        stage = stage_of.get(node.name or "", 0)
        devices = tuple(range(stage * each, (stage + 1) * each))
        if node.name in numbers:
            whole = classes.ruled.nodes[numbers[node.name]]
            for value, twin in zip(
                (*node.inputs, *node.outputs), (*whole.inputs, *whole.outputs), strict=True
            ):
                if value is None or twin is None or node.sharding_of(value):
                    continue
                parts = [
                    (axis, degrees.operator, classes.runs_of(twin, axis))
                    for axis, of in enumerate(classes.of(twin).tolist())
                    if of >= 0 and partitioned[of]
                ]
                if twin.is_graph_input() and degrees.data > 1 and (value.name or "") in batch:
                    parts.append((batch[value.name or ""], degrees.data, 1))
                for axis, shards, runs in parts:
                    shard_value(
                        node,
                        value,
                        configuration,
                        axis=axis,
                        num_shards=shards,
                        runs=runs,
                        device_indices=devices,
                    )
        node.set_pipeline_stage(configuration, stage)
    return copy


def _stages(model: ir.Model, plan: ParallelPlan) -> dict[str, int]:
    """The stage of each op by name; empty for one stage."""
    if plan.pipeline is None or not plan.pipeline.first_ops:
        return {}
    starts = set(plan.pipeline.first_ops)
    stages: dict[str, int] = {}
    stage = 0
    for node in chain_nodes(model):
        stage += node.name in starts
        stages[node.name or ""] = stage
    return stages


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

    def plan(self, request: PlanRequest) -> PlanAnswer:
        """See `mcm_compiler.contracts.planning.Planner.plan`."""
        asked = AutoMapOptions(**vars(request.options), search=self.search, linkage=self.linkage)
        if isinstance(target := request.target, ClusterTarget):
            found = plan_for_cluster(request, target, asked)
        else:
            found = plan_for_ring(request, target, asked)
        return replace(found, diagnostics=(*missing_rules(request.model), *found.diagnostics))

    def why(
        self, model: ir.Model, tensor: str, dim: int, degree: int, plan: ParallelPlan | None
    ) -> str:
        """See `mcm_compiler.contracts.planning.Planner.why`."""
        classes = dimension_classes(model, rules_of(model))
        value = classes.value_by_name.get(tensor)
        rank = 0 if value is None or value.shape is None else len(value.shape)
        if dim >= rank:
            have = f"{rank} dimensions" if value is not None else "no such tensor"
            raise CompileError.of(
                "MCM-S063",
                f"dim {dim} of {quote(tensor)} is asked about, and there is {have}",
                at="option why",
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
