"""The report, from manifest, certificate, program and models.

A compile writes its report by this derivation, and a check repeats it from the folder. Fields of
`STATED` follow from no other file; the manifest records them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from mcm_compiler.additions import addition_of
from mcm_compiler.artifact.layout import REPORT_SCHEMA_VERSION
from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.contracts.program import LoweredProgram, SimulationResult
from mcm_compiler.contracts.replication import PipelineCount, chip_roles
from mcm_compiler.contracts.target import Target, machine_of
from mcm_compiler.graph.constants import attribute_weights, constants_and_placeable, consumed_values
from mcm_compiler.graph.trip_counts import stated_counts
from mcm_compiler.options import CompileOptions
from mcm_compiler.placements.side_by_side import one_stands_for_all
from mcm_compiler.report import activity, bottleneck, cost_section, host_section, state_section
from mcm_compiler.report.hardware import energy_section, sensitivity_section
from mcm_compiler.report.hardware.figures import finite, gap
from mcm_compiler.report.objective_section import OBJECTIVE_SECTION, objective_facts
from mcm_compiler.report.sentences import DIVISION_SECTION
from mcm_compiler.report.verdict.assumed_trips import assumptions_of, withdraw_claims
from mcm_compiler.text.option_fields import options_of

if TYPE_CHECKING:
    from mcm_compiler.report.records.report import (
        CountFacts,
        GraphFacts,
        ReplicationFacts,
        RoleRow,
        TargetFacts,
        TensorFacts,
    )

STATED: Mapping[str, str] = {
    "strategy": "the search leaves no trace in its result",
    "found_by": "likewise",
    "options": "the request; those in fields of the manifest are stated there alone",
    "option_sources": "likewise",
    "dims": "of the model: names of dimensions that were given a size; the sizes are of inputs",
    "verification": "runs are repeated, not replayed; what they must agree in is compared as well",
    "diagnostics": "warnings and notes of the compile",
    "sensitivities": "compiles for other targets, of which nothing was written",
    "sizes": "of a decoder: models for other sizes, of which nothing was written",
    "prompt": "of a decoder: the figures of another profile",
    "versions": "of the programs that compiled",
}
"""Fields of a report that the manifest states, and why they are not derived."""

Derived = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Sources:
    """Sources of figures; one that is None leaves out the fields that need it.

    Attributes:
        manifest: of the folder.
        target: the package.
        certificate: None where nothing was placed.
        program: None where nothing was lowered.
        simulation: of the program, with the inferences of the report; None where none was played.
        graphs: the chips' models by chip, or None to do without.
        source: the annotated source model, or None to do without.
        sharded: rows of operators that run in pieces; None where there are none.
        mapped: what the addition of the target found out about its chips.
        assumed: trip counts that times assume, where the models that mark them are None.
    """

    manifest: Manifest
    target: Target
    certificate: Certificate | None
    program: LoweredProgram | None
    simulation: SimulationResult | None
    graphs: Mapping[int, ir.Graph] | None
    source: ir.Model | None
    sharded: Any = None
    mapped: Sequence[Any] = ()
    assumed: Mapping[str, int] = field(default_factory=dict[str, int])


def stated_of(report: Mapping[str, Any]) -> Derived:
    """The fields of `STATED` of a report."""
    fields = {**report, "dims": report["model"]["dims"]}
    states = report.get(state_section.STATE_SECTION) or {}
    fields |= {name: states[name] for name in ("sizes", "prompt") if states.get(name)}
    return {name: fields[name] for name in STATED if name in fields}


def derive_report(sources: Sources) -> Derived:
    """All fields of the report but its verdict, in their order and form.

    Args:
        sources: a folder, or a compile that is about to write one.
    """
    stated = sources.manifest.counted.stated
    manifest, simulation = sources.manifest, sources.simulation
    certificate, replicas = sources.certificate, sources.manifest.replicas
    at_once = sources.manifest.at_once
    package = certificate.claim("package") if certificate else None
    period_s = simulation.period_s / at_once if simulation else None
    analytic_s = certificate.period_s / at_once if certificate else None
    bound_s = package.seconds if package else None
    inside = _in_models(sources, sources.graphs) if sources.graphs is not None else {}

    found: Derived = {
        "schema_version": REPORT_SCHEMA_VERSION,
        "model": _model(sources, _taken(stated, "dims")),
        "target": target_facts(sources.target),
        **_taken(stated, "strategy", "found_by"),
        "routing": manifest.routing,
        "seed": manifest.seed,
        "pipeline": manifest.pipeline,
        "options": _options(manifest),
        **_taken(stated, "option_sources"),
        "throughput_per_s": 1.0 / period_s if period_s else None,
        "period_s": finite(period_s),
        "latency_s": finite(simulation.latency_s) if simulation else None,
        "period_model": simulation.simulator if simulation else None,
        "inferences": simulation.inferences if simulation else None,
        "analytic_period_s": finite(analytic_s),
        "cost_model": certificate.cost_model if certificate else None,
        "lower_bound_s": finite(bound_s),
        "bound_argument": package.argument if package else None,
        "bound_proof": (package.proof or None) if package else None,
        "gap": gap(period_s, bound_s),
        "analytic_gap": gap(analytic_s, bound_s),
        "learned_gain": certificate.learned.share if certificate and certificate.learned else None,
        "steady_from": simulation.steady_from if simulation else None,
        **_taken(inside, "bottleneck"),
        "chips_used": replicas * len(_used(sources)) if manifest.chips or certificate else None,
        "replication": _replication(sources) if certificate else None,
        **_taken(inside, "chips"),
        "links": activity.link_rows(simulation) if simulation else None,
        "clones": _rows(("node", "clone", "chip"), certificate.copies) if certificate else None,
        "relays": _rows(("tensor", "relay", "chip"), certificate.forwards) if certificate else None,
        "sharded_operators": sources.sharded,
        **_taken(stated, "verification", "diagnostics", "versions"),
    }
    if sources.source is not None:
        found[cost_section.STORAGE_SECTION] = cost_section.stored_widths(
            sources.source.graph, sources.target
        )
    if (chosen := cost_section.cost_choice_facts(sources.target)) is not None:
        found[cost_section.COST_SECTION] = {**chosen, **_taken(inside, "coverage")}
    found |= _taken(inside, host_section.HOST_SECTION, energy_section.ENERGY_SECTION)
    found |= _taken(stated, sensitivity_section.SENSITIVITY_SECTION)
    if (program := sources.program) is not None:
        limits = found["options"].get("serve")
        states = state_section.state_facts(
            manifest, program, simulation, sources.target, bound_s, limits
        )
        if states is not None:
            states["sizes"] = list(stated.get("sizes", ()))
            if (prompt := stated.get("prompt")) is not None:
                states["prompt"], states["ttft_s"] = prompt, prompt["ttft_s"]
            found[state_section.STATE_SECTION] = states
    if (added := addition_of(sources.target)) is not None:
        facts = added[1].facts(sources.target, sources.mapped)
        found |= {} if facts is None else {added[0]: facts}
    figures = certificate.figures if certificate else None
    pipeline_s = certificate.period_s if certificate else None
    if (facts := objective_facts(figures, pipeline_s, simulation, replicas)) is not None:
        found[OBJECTIVE_SECTION] = facts
    if certificate is not None and (over := certificate.divisions) is not None:
        share = gap(analytic_s, over.seconds)
        found[DIVISION_SECTION] = {"bound_s": over.seconds, "argument": over.argument, "gap": share}
    graphs = sources.graphs
    withdraw_claims(found, sources.assumed if graphs is None else assumptions_of(graphs.values()))
    return found


def _taken(fields: Mapping[str, Any], *names: str) -> Derived:
    return {name: fields[name] for name in names if name in fields}


def _in_models(sources: Sources, graphs: Mapping[int, ir.Graph]) -> Derived:
    """Fields that need the chips' models; sections are missing where there is nothing to say."""
    target, simulation, manifest = sources.target, sources.simulation, sources.manifest
    certificate = sources.certificate
    added = (*certificate.copies, *certificate.forwards) if certificate else ()
    names = {name for _, name, _ in added}
    found: Derived = {
        "chips": activity.chip_rows(simulation, sources.program, graphs, target.limits.sram_bytes),
        "bottleneck": _bottleneck(sources, graphs),
        "coverage": cost_section.coverage_facts(target, graphs, names) if graphs else None,
    }
    if (
        hosted := host_section.host_facts(target, graphs, simulation, manifest.replicas)
    ) is not None:
        found[host_section.HOST_SECTION] = hosted
    if (
        energy := energy_section.energy_facts(
            target, graphs, simulation, manifest.replicas, manifest.round
        )
    ) is not None:
        found[energy_section.ENERGY_SECTION] = energy
    return found


def _used(sources: Sources) -> tuple[int, ...]:
    """Chips of one pipeline with an op, ascending; those of the placement where none was split."""
    if sources.manifest.chips or sources.certificate is None:
        return tuple(sorted(chip.chip for chip in sources.manifest.chips))
    return tuple(range(int(sources.certificate.placement.max()) + 1))


def _replication(sources: Sources) -> ReplicationFacts:
    """Facts of all replicas; chips and links of the report are those of the first."""
    manifest, simulation = sources.manifest, sources.simulation
    certificate = sources.certificate
    pipeline = certificate.claim("pipeline") if certificate else None
    unsplit = chip_roles(manifest.replicas, manifest.chips_each, dict.fromkeys(_used(sources), ()))
    roles = manifest.placement if manifest.chips else unsplit
    facts: ReplicationFacts = {
        "replicas": manifest.replicas,
        "chips_each": manifest.chips_each,
        "pipeline_period_s": finite(simulation.period_s) if simulation else None,
        "pipeline_bound_s": finite(pipeline.seconds) if pipeline else None,
        "considered": [count_facts(one, manifest.round) for one in certificate.considered]
        if certificate
        else [],
        "chips": [cast("RoleRow", role.to_dict()) for role in roles],
    }
    if manifest.round > 1:
        facts["round"] = manifest.round
    if simulation is not None and (program := sources.program) is not None:
        sides = manifest.replicas, manifest.chips_each
        if one_stands_for_all(sources.target, program, *sides):
            facts["simulated_replicas"] = 1
    return facts


def count_facts(one: PipelineCount, classes: int = 1) -> CountFacts:
    """Facts of a number of replicas that was considered, each with rounds of N inferences."""
    known = (one.analytic_s, one.simulated_s, one.bound_s)
    analytic_s, simulated_s, bound_s = (None if s is None else s / classes for s in known)
    return {
        "replicas": one.replicas,
        "chips_each": one.chips_each,
        "analytic_period_s": finite(analytic_s),
        "simulated_period_s": finite(simulated_s),
        "lower_bound_s": finite(bound_s),
        "bound_proof": (one.bound.proof or None) if one.bound else None,
        "ruled_out": one.ruled_out or None,
    }


def _model(sources: Sources, dims: Derived) -> Derived:
    manifest = sources.manifest
    return {
        "name": manifest.model,
        "sha256": manifest.model_sha256,
        **(graph_facts(sources.source.graph) if sources.source is not None else {}),
        **dims,
        "shape_only": manifest.shape_only,
    }


def graph_facts(graph: ir.Graph) -> GraphFacts:
    """Facts of the source model's graph."""
    constants, nodes = constants_and_placeable(graph)
    read = [v for node in nodes for v in consumed_values(node) if v in constants]
    weights = _in_the_file(read)
    weights |= {v: None for node in nodes for v in attribute_weights(node)}
    defaults = set(graph.initializers.data.values())
    return {
        "ops": len(nodes),
        "weight_bytes": sum(map(_value_bytes, weights)),
        "inputs": [_tensor_facts(v) for v in graph.inputs if v not in defaults],
        "outputs": [_tensor_facts(v) for v in graph.outputs],
        "trip_counts": stated_counts(graph),
    }


def _in_the_file(constants: list[ir.Value]) -> dict[ir.Value, None]:
    """The values that constants are computed from; a `ConstantOfShape` stands for a weight."""
    found: dict[ir.Value, None] = {}
    pending, seen = constants, set(constants)
    while pending:
        value = pending.pop()
        node = value.producer()
        if node is None or not node.inputs or node.op_type == "ConstantOfShape":
            found[value] = None
            continue
        pending += (operands := [v for v in consumed_values(node) if v not in seen])
        seen.update(operands)
    return found


def _tensor_facts(value: ir.Value) -> TensorFacts:
    shape = value.shape
    sizes = None if shape is None else [d if isinstance(d, int) else d.value for d in shape]
    kind = value.dtype.name.lower() if value.dtype is not None else None
    return {"name": value.name, "type": kind, "shape": sizes}


def _value_bytes(value: ir.Value) -> int:
    """Bytes of a constant in the file's own type; 0 where its size is not known."""
    if value.const_value is not None:
        return value.const_value.nbytes
    if value.dtype in (None, ir.DataType.UNDEFINED, ir.DataType.STRING) or value.shape is None:
        return 0
    if any(not isinstance(dim, int) for dim in value.shape):
        return 0
    return math.ceil(math.prod(value.shape.numpy()) * value.dtype.itemsize)


def target_facts(target: Target) -> TargetFacts:
    """Facts of the package; `family` is missing where it is a ring."""
    facts: TargetFacts = {
        "name": target.name,
        "sha256": hashlib.sha256(target.source_text.encode()).hexdigest(),
        "chips": target.limits.num_chips,
        "sram_bytes": list(target.limits.sram_bytes),
    }
    machine = machine_of(target)
    if not machine.is_ring:
        facts = {"name": target.name, "family": machine.family, **facts}
    return facts


def _options(manifest: Manifest) -> Derived:
    """The request, in the order of the fields of its record."""
    found = {**manifest.counted.stated.get("options", {}), **own_options(manifest)}
    order = [option.name for option in options_of(CompileOptions)]
    return {name: found[name] for name in (*order, *found) if name in found}


def own_options(manifest: Manifest) -> Derived:
    """Options that are fields of the manifest."""
    options: Derived = {
        "seed": manifest.seed,
        "routing": manifest.routing,
        "dims": dict(manifest.dims),
        "shapes": {name: list(shape) for name, shape in manifest.shapes.items()},
    }
    if manifest.counted.inferences:
        options["inferences"] = manifest.counted.inferences
    return options


def _bottleneck(sources: Sources, graphs: Mapping[int, ir.Graph]) -> Any:
    if sources.simulation is None:
        return None
    limits = sources.target.limits
    if sources.manifest.chips_each:
        limits = limits.first(sources.manifest.chips_each)
    machine = machine_of(sources.target)
    certificate = None if assumptions_of(graphs.values()) else sources.certificate
    return bottleneck.find_bottleneck(
        sources.simulation, sources.program, machine, limits, graphs, certificate, sources.target
    )


def _rows(keys: tuple[str, str, str], rows: tuple[tuple[str, str, int], ...]) -> list[Derived]:
    return [dict(zip(keys, row, strict=True)) for row in rows]
