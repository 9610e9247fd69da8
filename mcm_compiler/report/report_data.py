"""From a compile's result to the report: plain data with a published schema.

The report says nothing that differs between two runs of the same input: no times of the
compiler's own, no paths of the machine. `docs/reference/schema/report.schema.json` describes every
field; it is rendered from `records`. Readers take reports of earlier releases too, which lack some
fields that the schema asks for.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import PurePath
from typing import cast

import onnx_ir as ir

from mcm_compiler.artifact.emit import input_entries, tensor_entry
from mcm_compiler.artifact.layout import REPORT_SCHEMA_VERSION
from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.chips import states_of
from mcm_compiler.contracts.fabrics.target import MAPPED_CHIPS
from mcm_compiler.contracts.partition import LEGALIZATION, Legalization, Partition
from mcm_compiler.contracts.replication import REPLICATION, PipelineCount, Replication, chip_roles
from mcm_compiler.contracts.sharding.sharding import APPLIED_PLAN, SHARDING_PLAN
from mcm_compiler.contracts.simulation import SimulationResult
from mcm_compiler.contracts.target import Target, machine_of, other_machine_of
from mcm_compiler.contracts.verification import StructureProof, Verification
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.execution.runner import SESSION_OPTIONS
from mcm_compiler.graph.constants import (
    attribute_weights,
    constants_and_placeable,
    consumed_values,
    placeable_nodes,
)
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.graph.trip_counts import stated_counts
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.activity import chip_rows, link_rows
from mcm_compiler.report.bottleneck import find_bottleneck
from mcm_compiler.report.cost_section import COST_SECTION, cost_choice_facts, coverage_facts
from mcm_compiler.report.fabric_section import FABRIC_SECTION, fabric_facts
from mcm_compiler.report.hardware.energy_section import ENERGY_SECTION, energy_facts
from mcm_compiler.report.hardware.figures import finite, gap, package_figures
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_SECTION
from mcm_compiler.report.host_section import HOST_SECTION, host_facts
from mcm_compiler.report.objective_section import OBJECTIVE_SECTION, objective_facts
from mcm_compiler.report.records.activity import Bottleneck
from mcm_compiler.report.records.report import (
    ChosenCosts,
    CloneRow,
    CountFacts,
    DiagnosticRow,
    GraphFacts,
    ModelFacts,
    OptionsFacts,
    RelayRow,
    ReplicationFacts,
    Report,
    ShardedRow,
    TargetFacts,
    TensorFacts,
)
from mcm_compiler.report.records.states import StateFacts
from mcm_compiler.report.records.verification import StructureFacts, VerificationFacts
from mcm_compiler.report.state_section import STATE_SECTION, state_facts
from mcm_compiler.report.storage_section import STORAGE_SECTION, stored_widths
from mcm_compiler.report.verdict.assumed_trips import assumptions_of, withdraw_claims
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.report.verdict.words import VERDICT
from mcm_compiler.report.versions import versions
from mcm_compiler.results.compile_result import CompileResult


def build_report(result: CompileResult) -> Report:
    """The report of `result`. Equal inputs, options and versions give equal reports.

    Fields are None where the pipeline did not compute them.
    """
    simulation, partition = result.simulation, result.partition
    replication = REPLICATION.find(result.model)
    replicas = replication.replicas if replication else 1
    figures = package_figures(simulation, partition, replication)
    period_s, bound, bound_s = figures.period_s, figures.bound, figures.bound_s
    analytic_s = figures.analytic_s
    ops_of = {c.chip: len(placeable_nodes(c.model.graph)) for c in result.chips or ()}
    used = tuple(sorted(ops_of)) or tuple(range(partition.num_chips_used if partition else 0))
    legalization = LEGALIZATION.find(result.model)
    report: Report = {
        "schema_version": REPORT_SCHEMA_VERSION,
        "model": _model_facts(result.source),
        "target": target_facts(result.target),
        "strategy": partition.strategy if partition else None,
        "found_by": (partition.found_by or None) if partition else None,
        "routing": result.options.routing,
        "seed": result.options.seed,
        "pipeline": result.pipeline,
        "options": options_facts(result.options, result.source.shapes),
        "throughput_per_s": figures.throughput_per_s,
        "period_s": finite(period_s),
        "latency_s": figures.latency_s,
        "period_model": simulation.simulator if simulation else None,
        "inferences": simulation.inferences if simulation else None,
        "analytic_period_s": finite(analytic_s),
        "cost_model": partition.cost_model if partition else None,
        "lower_bound_s": finite(bound_s),
        "bound_argument": bound.argument if bound else None,
        "bound_proof": (bound.proof or None) if bound else None,
        "gap": gap(period_s, bound_s),
        "analytic_gap": gap(analytic_s, bound_s),
        "learned_gain": partition.learned.share if partition and partition.learned else None,
        "steady_from": simulation.steady_from if simulation else None,
        "bottleneck": _bottleneck(result),
        "chips_used": _chips_used(result.chips is not None, ops_of, partition, replicas),
        "replication": _replication(replication, simulation, partition, used),
        "chips": chip_rows(simulation, result.program, ops_of, result.target.limits.sram_bytes),
        "links": link_rows(simulation) if simulation else None,
        "clones": _clones(legalization),
        "relays": _relays(legalization),
        "sharded_operators": _sharded(result.model),
        "verification": verification_data(result.verification) if result.verification else None,
        "diagnostics": [_without_paths(d, result.source) for d in result.diagnostics],
        "versions": versions(),
    }
    report[STORAGE_SECTION] = stored_widths(result.source.original.graph, result.target)
    if (chosen := _chosen_costs(result, legalization)) is not None:
        report[COST_SECTION] = chosen
    graphs = {chip.chip: chip.model.graph for chip in result.chips or ()}
    if (hosted := host_facts(result.target, graphs, simulation, replicas)) is not None:
        report[HOST_SECTION] = hosted
    if (energy := energy_facts(result.target, graphs, simulation, replicas)) is not None:
        report[ENERGY_SECTION] = energy
    if result.sensitivities is not None:
        report[SENSITIVITY_SECTION] = list(result.sensitivities)
    if (states := _states(result, replication)) is not None:
        report[STATE_SECTION] = states
    mapped = MAPPED_CHIPS.find(result.model) or ()
    if (fabrics := fabric_facts(result.target, mapped)) is not None:
        report[FABRIC_SECTION] = fabrics
    placed = partition.figures if partition else None
    pipeline_s = partition.period_s if partition else None
    if (facts := objective_facts(placed, pipeline_s, simulation, replicas)) is not None:
        report[OBJECTIVE_SECTION] = facts
    withdraw_claims(report, assumptions_of(graphs.values()))
    report[VERDICT] = verdict_of(report)
    return report


def _states(result: CompileResult, replication: Replication | None) -> StateFacts | None:
    if result.program is None:
        return None
    graph = result.source.original.graph
    return state_facts(
        states_of(result.chips or ()),
        (input_entries(result.source), tuple(map(tensor_entry, graph.outputs))),
        result.program,
        result.simulation,
        result.target,
        replication or Replication(1, 0),
    )


def _chosen_costs(result: CompileResult, legalization: Legalization | None) -> ChosenCosts | None:
    """What was chosen instead of the target's own cost model; None where nothing was."""
    facts = cost_choice_facts(result.target)
    if facts is None:
        return None
    found = None
    if result.chips is not None:
        rows = (*legalization.clones, *legalization.relays) if legalization else ()
        graphs = [chip.model.graph for chip in result.chips]
        found = coverage_facts(result.target, graphs, {added for _, added, _ in rows})
    return {**facts, "coverage": found}


def _bottleneck(result: CompileResult) -> Bottleneck | None:
    graphs = {chip.chip: chip.model.graph for chip in result.chips or ()}
    if result.simulation is None:
        return None
    limits = result.target.limits
    if (replication := REPLICATION.find(result.model)) is not None:
        limits = limits.first(replication.chips_each)
    machine = machine_of(result.target)
    certificate = None if assumptions_of(graphs.values()) else result.certificate
    return find_bottleneck(result.simulation, result.program, limits, graphs, machine, certificate)


def verification_data(verification: Verification) -> VerificationFacts:
    """A comparison by onnxruntime as JSON-able data; an error that is not finite becomes None."""
    found: VerificationFacts = {
        "holds": verification.holds,
        "skipped": verification.skipped,
        "seeds": list(verification.seeds),
        "outputs": [
            {
                "output": o.output,
                "holds": o.holds,
                "bit_equal": o.bit_equal,
                "max_abs_error": finite(o.max_abs_error),
                "tolerance": o.tolerance,
            }
            for o in verification.outputs
        ],
        "constant_outputs": list(verification.constant_outputs),
        "random_outputs": list(verification.random_outputs),
        "data_sets": list(verification.data_sets),
        "expected": [
            {
                "data_set": e.data_set,
                "output": e.output,
                "holds": e.holds,
                "max_abs_error": finite(e.max_abs_error),
            }
            for e in verification.expected
        ],
        "weak_outputs": [{"output": w.output, "why": w.why} for w in verification.weak],
        "redraws": list(verification.redraws),
        "session_options": dict(SESSION_OPTIONS),
        "stock_equal": all(o.bit_equal for o in verification.stock) if verification.stock else None,
        "structure": structure_data(verification.structure) if verification.structure else None,
    }
    if verification.steps:
        found["steps"] = verification.steps
    return found


def structure_data(proof: StructureProof) -> StructureFacts:
    """What is proven by structure as JSON-able data."""
    return {
        "ops": proof.ops,
        "proven": proof.proven,
        "whole": proof.whole,
        "unproven": [
            {"chip": op.chip, "node": op.node, "op_type": op.op_type, "origin": op.origin,
             "what": op.what}
            for op in proof.unproven
        ],
        "outputs": list(proof.outputs),
        "unfollowed_passes": list(proof.unfollowed_passes),
        "model": proof.model,
    }  # fmt: skip


def options_facts(options: CompileOptions, shapes: Mapping[str, tuple[int, ...]]) -> OptionsFacts:
    """The options as given, and the shapes that inputs were given, also by arrays.

    The normal forms of passes and cost model are elsewhere in the report.
    """
    told = ("passes", "cost_model")
    data = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in told}
    for name in ("fallback", "mapper", "mapping_model", "max_latency_s", "throughput"):
        if data[name] is None:
            del data[name]
    if options.goal.plain:
        del data["objective"]
    data["forbidden_chips"] = list(options.forbidden_chips)
    data["pins"] = [list(pin) for pin in options.pins]
    data["state"] = None if options.state is None else [list(pair) for pair in options.state]
    data["dims"] = dict(sorted(options.dims.items()))
    data["trip_counts"] = dict(sorted(options.trip_counts.items()))
    data["shapes"] = {name: list(shape) for name, shape in sorted(shapes.items())}
    return cast("OptionsFacts", data)


def _model_facts(source: SourceModel) -> ModelFacts:
    return {
        "name": source.name if source.name.startswith(zoo.PREFIX) else PurePath(source.name).name,
        "sha256": source.sha256,
        **graph_facts(source.original.graph),
        "dims": dict(sorted(source.dims.items())),
        "shape_only": source.shape_only,
    }


def graph_facts(graph: ir.Graph) -> GraphFacts:
    """What the report says of the source model's graph."""
    constants, nodes = constants_and_placeable(graph)
    weights = {v: None for node in nodes for v in consumed_values(node) if v in constants}
    weights |= {v: None for node in nodes for v in attribute_weights(node)}
    defaults = set(graph.initializers.values())
    return {
        "ops": len(nodes),
        "weight_bytes": sum(map(_value_bytes, weights)),
        "inputs": [_tensor_facts(v) for v in graph.inputs if v not in defaults],
        "outputs": [_tensor_facts(v) for v in graph.outputs],
        "trip_counts": stated_counts(graph),
    }


def target_facts(target: Target) -> TargetFacts:
    """What the report says of the package; `family` stands there where it is no ring."""
    machine = other_machine_of(target)
    facts: TargetFacts = {
        "name": target.name,
        "family": machine.family if machine is not None else "",
        "sha256": hashlib.sha256(target.source_text.encode()).hexdigest(),
        "chips": target.limits.num_chips,
        "sram_bytes": list(target.limits.sram_bytes),
    }
    if machine is None:
        del facts["family"]
    return facts


def _tensor_facts(value: ir.Value) -> TensorFacts:
    shape = value.shape
    return {
        "name": value.name,
        "type": value.dtype.name.lower() if value.dtype is not None else None,
        "shape": [d if isinstance(d, int) else d.value for d in shape]
        if shape is not None
        else None,
    }


def _value_bytes(value: ir.Value) -> int:
    """Bytes of a constant in the file's own type; 0 where its size is not known."""
    if value.const_value is not None:
        return value.const_value.nbytes
    if value.dtype in (None, ir.DataType.UNDEFINED, ir.DataType.STRING) or value.shape is None:
        return 0
    if any(not isinstance(dim, int) for dim in value.shape):
        return 0
    return math.ceil(math.prod(value.shape.numpy()) * value.dtype.itemsize)


def _chips_used(
    split: bool, ops_of: dict[int, int], partition: Partition | None, replicas: int
) -> int | None:
    if split:
        return replicas * len(ops_of)
    return replicas * partition.num_chips_used if partition else None


def _replication(
    replication: Replication | None,
    simulation: SimulationResult | None,
    partition: Partition | None,
    used: tuple[int, ...],
) -> ReplicationFacts | None:
    """What the pipelines do; chips and links of the report are those of the first."""
    if replication is None:
        return None
    return {
        "replicas": replication.replicas,
        "chips_each": replication.chips_each,
        "pipeline_period_s": finite(simulation.period_s) if simulation else None,
        "pipeline_bound_s": finite(partition.bound.seconds) if partition else None,
        "considered": [count_facts(one) for one in replication.considered],
        "chips": [
            {"chip": role.chip, "pipeline": role.pipeline, "runs": role.runs}
            for role in chip_roles(replication.replicas, replication.chips_each, used)
        ],
    }


def count_facts(one: PipelineCount) -> CountFacts:
    """What is known of a number of pipelines that was looked at."""
    return {
        "replicas": one.replicas,
        "chips_each": one.chips_each,
        "analytic_period_s": finite(one.analytic_s),
        "simulated_period_s": finite(one.simulated_s),
        "lower_bound_s": finite(one.bound_s),
        "bound_proof": (one.bound.proof or None) if one.bound else None,
        "ruled_out": one.ruled_out or None,
    }


def _clones(legalization: Legalization | None) -> list[CloneRow] | None:
    if legalization is None:
        return None
    return [{"node": n, "clone": clone, "chip": chip} for n, clone, chip in legalization.clones]


def _relays(legalization: Legalization | None) -> list[RelayRow] | None:
    if legalization is None:
        return None
    return [{"tensor": t, "relay": relay, "chip": chip} for t, relay, chip in legalization.relays]


def _sharded(compiled: ir.Model) -> list[ShardedRow] | None:
    """Operators that run in pieces; those whose pieces were folded into constants do not run."""
    applied, plan = APPLIED_PLAN.find(compiled), SHARDING_PLAN.find(compiled)
    if applied is None and plan is None:
        return None
    names = {node.name for node in compiled.graph}
    operators = (applied.operators if applied else ()) + (plan.operators if plan else ())
    return [
        {
            "node": o.node,
            "weight": o.weight,
            "weight_bytes": o.weight_bytes,
            "axis": o.axis,
            "pieces": list(o.pieces),
        }
        for o in operators
        if names.issuperset(o.pieces)
    ]


def _without_paths(diagnostic: Diagnostic, source: SourceModel) -> DiagnosticRow:
    """The diagnostic with the model's path cut to its name, because folders differ by machine."""
    data = diagnostic.to_dict()
    if source.path is not None:
        for path in (str(source.path.absolute()), str(source.path)):
            data = {
                key: text.replace(path, source.path.name) if text is not None else None
                for key, text in data.items()
            }
    return cast("DiagnosticRow", data)
