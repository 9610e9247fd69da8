"""The planner `auto-map`: after Wang et al. 2020 (Auto-MAP), on clusters and packages of chips.

From a plan to classes and back: what of a model a plan divides, checked.

Plans for a package of chips: pipelines side by side, ops over chips, a partition of each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.additions import other_targets
from mcm_compiler.api import run_passes
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.planning import PlanAnswer, PlanEstimate, PlanOptions, PlanRequest
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.contracts.sharding import parallel_plan
from mcm_compiler.contracts.sharding.parallel_plan import REPLICATED, ParallelPlan, check_plan
from mcm_compiler.contracts.sharding.sharding import shard_value
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import chain_nodes
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.spec_text import print_value
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses, dimension_classes
from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.classes.provenance import explain, render
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.decisions.step_cost import DeviceGroup
from mcm_passes.parallelism.plans import operator_choice
from mcm_passes.parallelism.rules.graph_rules import missing_rules, rules_of
from mcm_passes.parallelism.sharded_graph.sharded_graph import shard_graph
from mcm_passes.rewriting.simplification.constant_folding import fold_constants, fold_static_shapes
from mcm_passes.rewriting.simplification.redundancy import remove_dead_code

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
    """Data and pipeline parallelism with ops over devices; see `contracts.planning`."""

    name: ClassVar[str] = "auto-map"
    summary: ClassVar[str] = "data, operator and pipeline parallelism by linkage groups"

    def prepare(self, model: ir.Model) -> None:
        """See `mcm_compiler.contracts.planning.Planner.prepare`."""
        make_plannable(model)

    def plan(self, request: PlanRequest) -> PlanAnswer:
        """See `mcm_compiler.contracts.planning.Planner.plan`."""
        other = other_targets(request.target)
        found = plan_for_ring(request) if other is None else other.planned(request)
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


MOST_NAMED = 20
"""Faults that are listed at most."""


def planned_classes(
    model: ir.Model, plan: ParallelPlan, source: str | None = None
) -> tuple[DimensionClasses, NDArray[np.bool_]]:
    """The dimension classes of a model, and which of them a plan divides over `operator` devices.

    Args:
        model: that the plan is for; see `check_plan`.
        plan: what to divide.
        source: where the plan comes from, for messages.

    Raises:
        CompileError: MCM-S061 for a dimension that cannot be divided, MCM-S062 for two that cannot
            be divided both.
    """
    classes = dimension_classes(model, rules_of(model))
    found = np.zeros(len(classes.size), dtype=bool)
    if plan.degrees.operator < 2:
        return classes, found
    by: dict[int, tuple[str, int]] = {}
    faults: list[Diagnostic] = []
    for name, dim in plan.variables.items():
        if dim == REPLICATED:
            continue
        of = int(classes.of(classes.value_by_name[name])[dim])
        if of < 0 or classes.block[of] or classes.size[of] < plan.degrees.operator:
            reason = _obstacle(classes, name, dim, of, plan.degrees.operator)
            message = f"dim {dim} of {quote(name)} cannot be divided: {reason}"
            faults.append(Diagnostic("MCM-S061", message, at=source))
        else:
            found[of] = True
            by.setdefault(of, (name, dim))
    faults += _conflicts(classes, by, source)
    if faults:
        raise CompileError(faults[:MOST_NAMED])
    return classes, found


def _obstacle(classes: DimensionClasses, name: str, dim: int, of: int, degree: int) -> str:
    if of < 0:
        return "its extent is 1"
    if classes.block[of]:
        return render(FactorGraph(classes).why(name, dim))
    return f"it has {classes.size[of]} units for {degree} devices"


def _conflicts(
    classes: DimensionClasses, by: dict[int, tuple[str, int]], source: str | None
) -> list[Diagnostic]:
    """Dimensions that meet in an op, so that not both can be divided."""
    chosen = np.array(list(by), dtype=np.int32)
    meet = classes.conflicts(chosen)
    faults: list[Diagnostic] = []
    for i, j in combinations(range(len(chosen)), 2):
        if not meet[i, j]:
            continue
        one, other = by[int(chosen[i])], by[int(chosen[j])]
        way = render(FactorGraph(classes).why_conflict(one, other))
        message = (
            f"dim {one[1]} of {quote(one[0])} and dim {other[1]} of {quote(other[0])} cannot both "
            f"be divided: {way}"
        )
        faults.append(Diagnostic("MCM-S062", message, at=source))
        if len(faults) == MOST_NAMED:
            break
    return faults


MAX_BYTES = 4096
"""Of constants that are computed: shapes and the like, and no weights worth dividing."""

MAX_ROUNDS = 8


def make_plannable(model: ir.Model) -> None:
    """Folds what exporters compute about shapes, in place; weights are not merged or changed.

    Without that, an op that asks for a shape would need its operand whole.
    """
    if not any(node.op_type in {"Shape", "Size"} for node in model.graph):
        return
    source = SOURCE.find(model)
    shape_only = source is not None and source.shape_only
    for _ in range(MAX_ROUNDS):
        changes = fold_static_shapes(model.graph)
        changes += fold_constants(model, MAX_BYTES, keep_placeholders=shape_only)
        changes += remove_dead_code(model.graph)
        if not changes:
            break
    infer_shapes(model)


PIPELINE = "simplify,fuse,annotate_cost,parallelize,partition"


def plan_for_ring(request: PlanRequest) -> PlanAnswer:
    """The plan that a compile would follow, with ops divided over `operator` chips if asked.

    Ops are not divided unless that is asked for: what they gain in time, chips that work on
    other inferences gain without adding up partial sums. What fits no chip is divided anyway, by
    the compile itself.

    Raises:
        CompileError: MCM-S065 for training, MCM-P018 for degrees that the package does not have,
            and as the passes of a compile.
    """
    options, target = request.options, cast("Target", request.target)
    if options.training:
        raise CompileError.of(
            "MCM-S065",
            "a package of chips runs inferences, and a step of training is asked for",
            at=f"target {quote(target.name)}",
        )
    model, progress = request.model, request.progress
    progress("dimension classes")
    classes = dimension_classes(model, rules_of(model))
    inputs = operator_choice.best_inputs(model, classes, options)
    operator_choice.asks_to_divide(model, classes, replace(options, operator=options.operator or 1))
    if (degree := options.operator or 1) > 1:
        progress(f"ops over {degree} chips")
    choice = over_chips(model, classes, target, options)
    draft = parallel_plan.ParallelPlan(
        request.name,
        parallel_plan.model_digest(model),
        target.name,
        options.objective,
        degrees=parallel_plan.Degrees(options.data or 1, degree, 1),
        variables=choice.dims,
        inputs=dict.fromkeys(inputs.dims, parallel_plan.REPLICATED),
        search=choice.records,
    )
    progress("partition")
    return _with_partition(model, target, options, draft, progress)


def over_chips(
    model: ir.Model, classes: DimensionClasses, target: Target, options: PlanOptions
) -> operator_choice.OperatorChoice:
    """The ops that `operator` chips divide among them."""
    found, limits = None, target.limits
    if (degree := options.operator or 1) > 1:
        group = DeviceGroup(degree, limits.link_bytes_per_s, limits.hop_latency_s)
        # A chip that does not divide an op has all of its batch: nothing here divides that.
        found = operator_choice.choose_operators(
            model, classes, group, options, target.cost_model(), batch=False
        )
    return found or operator_choice.OperatorChoice.none(model, classes)


def _check_chips(target: Target, stages: int, data: int) -> None:
    chips = target.limits.num_chips
    if stages * data > chips:
        raise CompileError.of(
            "MCM-P018",
            f"data {data} x stages {stages} take {stages * data} chips, and there are {chips}",
            at=f"target {quote(target.name)}",
        )


def _with_partition(
    model: ir.Model,
    target: Target,
    options: PlanOptions,
    draft: parallel_plan.ParallelPlan,
    progress: Callable[[str], None],
) -> PlanAnswer:
    with tempfile.TemporaryDirectory() as folder:
        passes = PIPELINE
        if draft.degrees.operator > 1:
            path = Path(folder) / "plan.json"
            path.write_text(parallel_plan.plan_text(draft), encoding="utf-8")
            passes = f"apply_plan{{file={print_value(str(path))}}},{PIPELINE}"

        def partitioned(data: int | None) -> tuple[ir.Model, tuple[Diagnostic, ...]]:
            # Each replica has as many chips as stages.
            chips = None if options.stages is None else options.stages * (data or 1)
            asked = CompileOptions(passes=passes, seed=options.seed, replicas=data, chips=chips)
            return run_passes(model, target, asked, progress=progress)[:2]

        data = options.data
        if options.stages is not None:
            _check_chips(target, options.stages, data or 1)
            data = data or target.limits.num_chips // options.stages
        try:
            compiled, notes = partitioned(data)
        except CompileError as error:
            # Nobody asked for replicas, and there are models that have none, such as with states.
            if options.data is not None or data == 1 or error.diagnostics[0].code != "MCM-P018":
                raise
            compiled, notes = partitioned(1)
    partition, problem = PARTITION.get(compiled), PARTITION_PROBLEM.get(compiled)
    replication = REPLICATION.get(compiled)
    fixed = np.flatnonzero(~problem.clonable)
    order = fixed[np.argsort(partition.chip_of[fixed], kind="stable")]
    chips = partition.chip_of[order]
    cuts = np.flatnonzero(np.diff(chips)) + 1
    pipeline = None
    if len(cuts):
        pipeline = parallel_plan.PlannedPipeline(
            cuts=tuple(cuts.tolist()),
            device_cuts=tuple(int(chip) for chip in chips[cuts]),
            first_ops=tuple(problem.names[order[cut]] for cut in cuts.tolist()),
        )
    replicas, degree = replication.replicas, draft.degrees.operator
    degrees = parallel_plan.Degrees(replicas, degree, len(cuts) + 1)
    plan = replace(draft, degrees=degrees, pipeline=pipeline)
    estimates = tuple(
        PlanEstimate(n.replicas, degree, n.chips_each, n.analytic_s, chosen=n.replicas == replicas)
        for n in replication.considered
    )
    if not estimates:
        seconds = partition.period_s / replication.at_once
        estimates = (PlanEstimate(replicas, degree, len(cuts) + 1, seconds, chosen=True),)
    how = f"{partition.strategy}, replicas compared"
    return PlanAnswer(plan, how, len(estimates), estimates=estimates, diagnostics=notes)
