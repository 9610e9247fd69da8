"""Plans for a package of chips: pipelines side by side, ops over chips, a partition of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from mcm_compiler.api import run_passes
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.planning import PlanAnswer, PlanEstimate, PlanRequest
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.contracts.sharding import parallel_plan
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.spec_text import print_value
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.decisions.step_cost import DeviceGroup
from mcm_passes.parallelism.plans import operator_choice
from mcm_passes.parallelism.plans.operator_choice import AutoMapOptions
from mcm_passes.parallelism.rules.graph_rules import rules_of

PIPELINE = "simplify,fuse,annotate_cost,parallelize,partition"


def plan_for_ring(request: PlanRequest, target: Target, options: AutoMapOptions) -> PlanAnswer:
    """The plan that a compile would follow, with ops divided over `operator` chips if asked.

    Ops are not divided unless that is asked for: what they gain in time, chips that work on
    other inferences gain without adding up partial sums. What fits no chip is divided anyway, by
    the compile itself.

    Raises:
        CompileError: MCM-S065 for training, MCM-P018 for degrees that the package does not have,
            and as the passes of a compile.
    """
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
    choice = operator_choice.OperatorChoice.none(model, classes)
    operator_choice.asks_to_divide(model, classes, replace(options, operator=options.operator or 1))
    if (degree := options.operator or 1) > 1:
        progress(f"ops over {degree} chips")
        limits, cost_model = target.limits, target.cost_model()
        group = DeviceGroup(degree, 1.0, limits.link_bytes_per_s, limits.hop_latency_s)
        # A chip that does not divide an op has all of its batch: nothing here divides that.
        found = operator_choice.choose_operators(
            model, classes, group, options, cost_model, batch=False
        )
        if found is not None:
            choice = found.searched(options, progress)
    draft = parallel_plan.ParallelPlan(
        request.name,
        parallel_plan.model_digest(model),
        target.name,
        options.objective,
        degrees=parallel_plan.Degrees(options.data or 1, degree, 1),
        variables=choice.dims,
        inputs=dict.fromkeys(inputs.dims, parallel_plan.REPLICATED),
    )
    progress("partition")
    return _with_partition(model, target, options, draft, choice, progress)


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
    options: AutoMapOptions,
    draft: parallel_plan.ParallelPlan,
    choice: operator_choice.OperatorChoice,
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
    plan = parallel_plan.ParallelPlan(
        draft.model,
        draft.digest,
        draft.target,
        options.objective,
        degrees=parallel_plan.Degrees(replication.replicas, draft.degrees.operator, len(cuts) + 1),
        variables=draft.variables,
        inputs=draft.inputs,
        pipeline=pipeline,
        search=choice.records,
    )
    estimates = tuple(
        PlanEstimate(
            one.replicas,
            draft.degrees.operator,
            one.chips_each,
            one.analytic_s,
            chosen=one.replicas == replication.replicas,
        )
        for one in replication.considered
    )
    if not estimates:
        seconds = partition.period_s / replication.at_once
        estimates = (
            PlanEstimate(
                replication.replicas, draft.degrees.operator, len(cuts) + 1, seconds, chosen=True
            ),
        )
    how = f"{partition.strategy}, replicas compared"
    return PlanAnswer(plan, how, len(estimates), estimates=estimates, diagnostics=notes)
