"""A plan in ONNX's multi-device fields: sharding specs and pipeline stages."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.sharding.parallel_plan import REPLICATED, ParallelPlan
from mcm_compiler.contracts.sharding.specs import shard_value
from mcm_passes.parallelism.pipelines.node_chain import chain_nodes
from mcm_passes.parallelism.plans.plan_application import planned_classes

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
