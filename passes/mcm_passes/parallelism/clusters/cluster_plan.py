"""Plans for clusters: data parallelism, divided ops and a pipeline, compared in all combinations.

A group of `operator` devices acts as one device that is as much faster as dividing the ops makes
it. A pipeline cuts the model into stages over such groups, and a stage on several groups is
replicated (data parallelism). One stage on all groups is plain data parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from mcm_compiler.components.cost_choice import calibrated
from mcm_compiler.contracts.cluster import Cluster, ClusterTarget
from mcm_compiler.contracts.planning import PlanAnswer, PlanEstimate, PlanOptions, PlanRequest
from mcm_compiler.contracts.sharding import parallel_plan
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import chain_nodes
from mcm_compiler.text.units import bytes_text, count_text
from mcm_models.pipelines.problem import Pipeline
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.clusters.cluster_ways import (
    Batch,
    Way,
    choices,
    known_way,
    least_bytes,
    pipelining_of,
    seconds_of,
    way_of,
    with_start,
)
from mcm_passes.parallelism.pipelines import node_chain
from mcm_passes.parallelism.pipelines.optimal_pipeline import best_pipeline
from mcm_passes.parallelism.plans.operator_choice import LEAST_DEGREE, asks_to_divide, best_inputs
from mcm_passes.parallelism.rules.graph_rules import rules_of

MOST_STAGES = 8
"""Stages up to which pipelines are compared without being asked for."""


_EQUAL = 1e-9
"""Relative; a way that equals the best one is worth its exact cuts."""


def plan_for_cluster(request: PlanRequest) -> PlanAnswer:
    """The fastest combination by the formulas.

    The plan that the request starts from is one of them; where that leaves servers idle, so does
    the answer if it is the fastest.

    Raises:
        CompileError: MCM-I004 for a model of constants alone, MCM-S042 if nothing fits into memory,
            MCM-S064 for degrees that the cluster or the batch does not have, for `--shard` as
            `constrained`, and for a start as `check_plan`.
    """
    model, name, progress = request.model, request.name, request.progress
    options = request.options
    cluster_target = cast("ClusterTarget", request.target)
    target = calibrated(cluster_target, ([node] for node in chain_nodes(model)))
    cluster = target.cluster
    _check_degrees(cluster, target.name, options)
    progress("dimension classes")
    classes = dimension_classes(model, rules_of(model))
    if not chain_nodes(model):
        raise CompileError.of(
            "MCM-I004",
            "no op depends on an input of the model, so there is nothing to place",
            at=quote(name),
        )
    pipelining = pipelining_of(model, target, options)
    batch = Batch(model, classes, options)
    divides = asks_to_divide(model, classes, options)
    start, ways, too_wide = None, list[Way](), list[int]()
    if (known := request.start) is not None:
        parallel_plan.check_plan(known, model)
        operator = known.degrees.operator
        choose = choices(model, classes, target, operator, options, known.variables)
        start = known_way(pipelining, cluster, batch, choose, known)
    for operator in _operator_degrees(cluster, options):
        if divides and operator == 1:
            continue
        progress(f"ops over {operator} devices")
        choose = choices(model, classes, target, operator, options)
        for stages in _stage_counts(cluster, operator, options):
            progress(f"ops over {operator} devices, {stages} stages")
            way = None
            if len(ways) + (start is not None) < request.evaluations:
                way = way_of(pipelining.problem, batch, choose, operator, stages)
            if isinstance(way, int):
                too_wide.append(way)
            elif way is not None:
                ways.append(way)
    ways = with_start(ways, start)
    fitting = [way for way in ways if way.pipeline is not None]
    if not fitting:
        # Stages need weights, so that without any there is only one, on all devices.
        none_has_weights = not pipelining.chain.weight_bytes.any()
        if too_wide and (not ways or none_has_weights):
            raise CompileError(_too_few_rows(target, batch, min(too_wide)))
        raise CompileError(_nothing_fits(target, options, ways))
    progress("exact cuts")
    ways = _with_exact_cuts(ways, cluster.servers)
    fitting = [way for way in ways if way.pipeline is not None]
    best = min(fitting, key=seconds_of)
    assert best.pipeline is not None
    operator, data = best.choice.degree, best.replicas
    pipeline, cut = best.pipeline, list[parallel_plan.SearchRecord]()
    if best.stages > 1:
        exact = best_pipeline(best.problem)
        assert exact is not None
        pipeline, seconds = exact, exact.length_s
        cut.append(parallel_plan.SearchRecord("PP", "dp", options.seed, seconds, seconds, 0.0))
    # Some stage may have more groups than there are replicas on average.
    ends = (0, *pipeline.devices, best.problem.devices.num_devices)
    inputs = best_inputs(model, classes, options, max(b - a for a, b in pairwise(ends)))
    planned = None
    if best.stages > 1:
        planned = _planned(pipelining, pipeline, operator, options)
    records = [*best.choice.records, *(inputs.records if data > 1 else ()), *cut]
    plan = parallel_plan.ParallelPlan(
        model=name,
        digest=parallel_plan.model_digest(model),
        target=target.name,
        objective=options.objective,
        training=options.training,
        degrees=parallel_plan.Degrees(data, operator, best.stages),
        variables=best.choice.dims,
        inputs=inputs.dims if data > 1 else dict.fromkeys(inputs.dims, parallel_plan.REPLICATED),
        pipeline=planned,
        search=tuple(records),
        servers=None if best.servers == cluster.servers else best.servers,
    )
    estimates = tuple(
        PlanEstimate(
            data=way.replicas,
            operator=way.choice.degree,
            stages=way.stages,
            seconds=_planned_seconds(pipeline if way is best else way.pipeline),
            chosen=way is best,
        )
        for way in ways
    )
    how = f"{count_text(len(ways), 'combination')} of degrees, by formulas"
    return PlanAnswer(plan, how, len(ways), estimates=estimates)


def _with_exact_cuts(ways: list[Way], servers: int) -> list[Way]:
    """The ways of up to a stage per server, with the best of all cuts where that may be the plan.

    Those that cannot beat the best way keep the pipeline that they were compared by.
    """
    best = min(way.pipeline.length_s for way in ways if way.pipeline is not None)
    found = list(ways)
    order = [index for index, way in enumerate(ways) if way.pipeline is not None]
    for index in sorted(order, key=lambda index: seconds_of(ways[index])):
        way = ways[index]
        if 1 < way.stages <= servers:
            exact = best_pipeline(way.problem, below_s=best * (1.0 + _EQUAL))
            if exact is not None:
                found[index] = replace(way, pipeline=exact)
                best = min(best, exact.length_s)
    return found


def _planned_seconds(pipeline: Pipeline | None) -> float | None:
    return None if pipeline is None else pipeline.length_s


def _check_degrees(cluster: Cluster, name: str, options: PlanOptions) -> None:
    operator, stages, data = options.operator or 1, options.stages or 1, options.data or 1
    fault = ""
    if cluster.devices_per_server % operator:
        fault = (
            f"ops over {operator} devices: a server has {cluster.devices_per_server}, "
            "which that does not divide"
        )
    elif operator * stages * data > cluster.num_devices:
        fault = (
            f"data {data} x operator {operator} x stages {stages} take "
            f"{operator * stages * data} devices, there are {cluster.num_devices}"
        )
    if fault:
        raise CompileError.of("MCM-S064", fault, at=f"target {quote(name)}")


def _operator_degrees(cluster: Cluster, options: PlanOptions) -> list[int]:
    if options.operator is not None:
        return [options.operator]
    each = cluster.devices_per_server
    if options.objective == "paper-count":
        return [each]
    return [k for k in range(1, each + 1) if each % k == 0]


def _stage_counts(cluster: Cluster, operator: int, options: PlanOptions) -> Iterator[int]:
    groups = cluster.num_devices // operator
    if options.stages is not None:
        # Groups that a number of replicas leaves without work are none that were asked for.
        meant = options.data is None or options.stages * options.data == groups
        wanted = [options.stages] if meant else []
    elif options.data is not None:
        wanted = [groups // options.data] if groups % options.data == 0 else []
    else:
        wanted = sorted({1, 2, cluster.servers, 2 * cluster.servers})
        wanted = [count for count in wanted if count <= MOST_STAGES]
    yield from (count for count in wanted if count <= groups)


def _planned(
    pipelining: node_chain.ModelPipelining, pipeline: Pipeline, operator: int, options: PlanOptions
) -> parallel_plan.PlannedPipeline:
    chain: node_chain.NodeChain = pipelining.chain
    cuts = pipelining.layers(pipeline.cuts) if pipelining.boundaries else pipeline.cuts
    if len(set(cuts)) < len(cuts):
        cuts = pipeline.cuts
    return parallel_plan.PlannedPipeline(
        cuts=cuts,
        device_cuts=tuple(operator * place for place in pipeline.devices),
        first_ops=tuple(chain.names[cut] for cut in pipeline.cuts),
        micro_batches=options.micro_batches,
    )


def _too_few_rows(target: ClusterTarget, batch: Batch, width: int) -> Diagnostic:
    rows = batch.rows(LEAST_DEGREE)
    have = f"the batch has {rows} rows" if rows > 1 else "no input has a batch that can be divided"
    return Diagnostic(
        "MCM-S064",
        f"each of {width} replicas of a stage needs a row of the batch, and {have}",
        at=f"target {quote(target.name)}",
        hint="ask for more stages, for ops over more devices, or for nothing to let the compiler "
        "choose; or give the model a larger batch",
    )


def _nothing_fits(target: ClusterTarget, options: PlanOptions, ways: list[Way]) -> list[Diagnostic]:
    if not ways:
        return [
            Diagnostic(
                "MCM-S064",
                "no combination of data, operator and pipeline parallelism uses the devices as "
                "asked",
                at=f"target {quote(target.name)}",
            )
        ]
    need = min(least_bytes(way.problem) for way in ways)
    if np.isinf(need):
        return [
            Diagnostic(
                "MCM-S064",
                "no pipeline has as many stages as asked: each needs ops, weights and a device of "
                "its own",
                at=f"target {quote(target.name)}",
                hint="ask for fewer stages, or for none to let the compiler choose",
            )
        ]
    have = target.cluster.memory_bytes
    training = f" to train with {options.optimizer}" if options.training else ""
    return [
        Diagnostic(
            "MCM-S042",
            f"the model does not fit the devices{training}: the fullest device needs at least "
            f"{bytes_text(int(need))} of {bytes_text(have)} in each of {len(ways)} ways",
            at=f"target {quote(target.name)}",
        )
    ]
