"""Combinations of degrees on a cluster, each with its choice, problem and pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cluster import Cluster, ClusterTarget
from mcm_compiler.contracts.planning import PlanOptions
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan
from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.pipelines.kernels import memory_bytes, unchecked_length_s
from mcm_models.pipelines.problem import Pipeline, PipelineProblem, device_row, pipeline_tables
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.decisions.step_cost import DeviceGroup
from mcm_passes.parallelism.pipelines import node_chain
from mcm_passes.parallelism.pipelines.optimal_pipeline import (
    best_pipeline,
    descended,
    least_memory,
    pipeline_of,
)
from mcm_passes.parallelism.plans.operator_choice import (
    OperatorChoice,
    best_inputs,
    choose_operators,
)


@dataclass(frozen=True, eq=False)
class Way:
    """One combination."""

    choice: OperatorChoice
    stages: int
    problem: PipelineProblem
    pipeline: Pipeline | None

    @property
    def replicas(self) -> int:
        """Groups of devices that a stage has on average."""
        return max(self.problem.devices.num_devices // self.stages, 1)

    @property
    def servers(self) -> int:
        """Servers whose devices it uses."""
        return int(self.problem.devices.server_of[-1]) + 1


def pipelining_of(
    model: ir.Model, target: ClusterTarget, options: PlanOptions
) -> node_chain.ModelPipelining:
    """The model prepared for pipelines, run as the options say."""
    settings = node_chain.PipelineSettings(
        stages=options.stages,
        micro_batches=options.micro_batches,
        training=options.training,
        optimizer=cast("node_chain.Optimizer", options.optimizer),
    )
    return node_chain.prepare(model, target, settings)


class Batch:
    """Rows of the batch that any number of replicas divides."""

    def __init__(self, model: ir.Model, classes: DimensionClasses, options: PlanOptions) -> None:
        self._about = model, classes, replace(options, data=None)
        self._rows: dict[int, int] = {}

    def rows(self, replicas: int) -> int:
        """Rows that N replicas divide, each a whole one at least; 1 if there are too few."""
        if replicas not in self._rows:
            self._rows[replicas] = best_inputs(*self._about, replicas).rows
        return self._rows[replicas]


def choices(
    model: ir.Model,
    classes: DimensionClasses,
    target: ClusterTarget,
    operator: int,
    options: PlanOptions,
    known: Mapping[str, int] | None = None,
) -> Callable[[bool], OperatorChoice | None]:
    """Choices of a group of devices, by whether they divide the batch in what is left whole.

    None where nothing is worth dividing, and nobody asked for it. `known` as for
    `choose_operators`.
    """
    none = OperatorChoice.none(model, classes)
    if operator == 1:
        return lambda batch: none
    found: dict[bool, OperatorChoice | None] = {}

    def choose(batch: bool) -> OperatorChoice | None:
        if batch not in found:
            group, costs = _group(target.cluster, operator), target.cost_model()
            try:
                found[batch] = choose_operators(
                    model, classes, group, options, costs, batch=batch, known=known
                )
            except CompileError as error:
                # What has to be divided may be too small for degrees that nobody asked for.
                if options.operator is not None or error.diagnostics[0].code != "MCM-S025":
                    raise
                found[batch] = None
            if found[batch] is None and (options.operator or known) is not None:
                found[batch] = replace(none, degree=operator)
        return found[batch]

    return choose


def way_of(
    problem: PipelineProblem,
    batch: Batch,
    choose: Callable[[bool], OperatorChoice | None],
    operator: int,
    stages: int,
) -> Way | int | None:
    """One combination.

    The replicas of a stage where the batch has too few rows for them, and None where nothing is
    worth dividing.
    """
    # The widest stage has this many groups; their devices divide the rows again where there are
    # enough for all of them.
    width = -(-(problem.devices.num_devices // operator) // stages)
    again = width == 1 or batch.rows(width * operator) > 1
    choice = choose(again)
    if choice is None:
        return None
    over = operator if again and choice.problem is not None else 1
    problem = grouped(problem, operator, choice, stages)
    if width > 1:
        rows = batch.rows(width * over)
        if rows == 1:
            return width
        problem = replace(problem, rows=rows, rows_over=over)
    return Way(choice, stages, problem, _quick_pipeline(problem))


def known_way(
    pipelining: node_chain.ModelPipelining,
    cluster: Cluster,
    batch: Batch,
    choose: Callable[[bool], OperatorChoice | None],
    plan: ParallelPlan,
) -> Way | None:
    """The combination of a plan; None where the cluster, the batch or the order lacks its stages.

    Raises:
        CompileError: MCM-S022 if a stage begins with an op that the model does not have.
    """
    degrees, servers = plan.degrees, plan.servers or cluster.servers
    if servers > cluster.servers or cluster.devices_per_server % degrees.operator:
        return None
    devices = device_row(replace(cluster, servers=servers))
    problem = replace(pipelining.problem, devices=devices)
    way = way_of(problem, batch, choose, degrees.operator, degrees.pipeline)
    if not isinstance(way, Way):
        return None
    if plan.pipeline is None or not plan.pipeline.first_ops:
        return way
    position = {name: at for at, name in enumerate(pipelining.chain.names)}
    if unknown := [name for name in plan.pipeline.first_ops if name not in position]:
        raise CompileError.of(
            "MCM-S022",
            f"a stage of the plan begins with {quote(unknown[0])}, which the model does not have",
        )
    cuts = [position[name] for name in plan.pipeline.first_ops]
    places, apart = np.divmod([*plan.pipeline.device_cuts], degrees.operator)
    ends = way.problem.num_parts, way.problem.devices.num_devices
    parts, devices = np.array([0, *cuts, ends[0]]), np.array([0, *places, ends[1]])
    if apart.any() or (np.diff(parts) <= 0).any() or (np.diff(devices) <= 0).any():
        return None
    known = replace(way, pipeline=pipeline_of(pipeline_tables(way.problem), parts, devices))
    return min(way, known, key=seconds_of)


def with_start(ways: list[Way], start: Way | None) -> list[Way]:
    """The combinations with that of the start, which takes the place of a slower one like it."""
    if start is None:
        return ways
    like = [
        index
        for index, way in enumerate(ways)
        if (way.choice.degree, way.stages, way.servers)
        == (start.choice.degree, start.stages, start.servers)
    ]
    if not like:
        return [*ways, start]
    return [
        min(way, start, key=seconds_of) if index in like else way for index, way in enumerate(ways)
    ]


def grouped(
    problem: PipelineProblem, operator: int, choice: OperatorChoice, stages: int
) -> PipelineProblem:
    """The problem on groups of devices that divide ops among them.

    Args:
        problem: on single devices.
        operator: devices of a group, all in one server.
        choice: what they divide.
        stages: of the pipeline.
    """
    devices = problem.devices
    row = replace(devices, server_of=devices.server_of[::operator], speed=devices.speed[::operator])
    return replace(
        problem,
        devices=row,
        stages=stages,
        forward_s=problem.forward_s * choice.time_share,
        backward_s=problem.backward_s * choice.time_share,
        weight_bytes=problem.weight_bytes * choice.memory_share,
        state_bytes=problem.state_bytes * choice.memory_share,
    )


def _quick_pipeline(problem: PipelineProblem) -> Pipeline | None:
    """A pipeline to compare ways by: within a percent or two of the best one, in milliseconds."""
    if problem.stages > min(problem.num_parts, problem.devices.num_devices):
        return None
    if problem.stages == 1:
        return _one_stage(problem)
    found = descended(problem)
    # What does not fit in balance may fit otherwise.
    return found if np.isfinite(found.length_s) else best_pipeline(problem)


def _one_stage(problem: PipelineProblem) -> Pipeline | None:
    """Plain data parallelism: no cut, so that no stage has to have weights; a model may have none.

    The formula wants some in every stage, since what has none belongs to a neighbour.
    """
    if least_bytes(problem) > problem.devices.memory_bytes:
        return None
    ends = np.array([0, problem.num_parts]), np.array([0, problem.devices.num_devices])
    return Pipeline((), (), float(unchecked_length_s(pipeline_tables(problem), *ends)))


def least_bytes(problem: PipelineProblem) -> float:
    """Bytes on the fullest device of the pipeline that needs least; infinite if there is none."""
    if problem.stages > 1:
        return least_memory(problem)
    devices = problem.devices.num_devices
    return float(memory_bytes(pipeline_tables(problem), 0, problem.num_parts, 0, devices, 1))


def seconds_of(way: Way) -> float:
    """Seconds of its pipeline; infinite where it has none."""
    return way.pipeline.length_s if way.pipeline is not None else float("inf")


def _group(cluster: Cluster, operator: int) -> DeviceGroup:
    server = cluster.server()
    rate, latency = server.channel_bytes_per_s.min(), server.channel_latency_s.max()
    memory = int(server.memory_bytes.min())
    return DeviceGroup(operator, float(rate), float(latency), memory)
