"""The report once more, from what lies in a folder instead of from a compile's result.

`NOT_DERIVED` lists what a folder cannot tell: what was asked for, who searched, and what was said
on the way. Everything else has to come out as it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir as ir

from mcm_compiler.artifact.layout import REPORT_SCHEMA_VERSION
from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.contracts.fabrics.target import MappedChip
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.contracts.simulation import SimulationResult
from mcm_compiler.contracts.target import Target, machine_of
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.report.activity import chip_rows, link_rows
from mcm_compiler.report.bottleneck import find_bottleneck
from mcm_compiler.report.cost_section import COST_SECTION, cost_choice_facts, coverage_facts
from mcm_compiler.report.fabric_section import FABRIC_SECTION, fabric_facts
from mcm_compiler.report.hardware.energy_section import ENERGY_SECTION, energy_facts
from mcm_compiler.report.hardware.figures import finite, gap
from mcm_compiler.report.host_section import HOST_SECTION, host_facts
from mcm_compiler.report.objective_section import OBJECTIVE_SECTION, objective_facts
from mcm_compiler.report.records.report import CoverageFacts
from mcm_compiler.report.records.states import StateFacts
from mcm_compiler.report.report_data import (
    count_facts,
    graph_facts,
    target_facts,
)
from mcm_compiler.report.state_section import STATE_SECTION, state_facts
from mcm_compiler.report.storage_section import STORAGE_SECTION, stored_widths
from mcm_compiler.report.verdict.assumed_trips import assumptions_of, withdraw_claims

NOT_DERIVED: Mapping[str, str] = {
    "strategy": "who searched leaves no trace in what was found",
    "found_by": "likewise",
    "options": "what was asked for; seed, routing, dims, shapes, inferences, chips and pins are "
    "compared",
    "model.dims": "names of dimensions that were given a size; the sizes are of inputs",
    "verification": "runs are repeated, not replayed; what they must agree in is compared",
    "diagnostics": "what was said on the way",
    "sensitivities": "compiles for other targets, of which nothing was written",
    "versions": "of the programs that compiled",
}
"""Fields of a report that its folder cannot tell, and why."""

Derived = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Sources:
    """What figures are derived from; what is None leaves out the fields that need it.

    Attributes:
        manifest: of the folder.
        target: the package.
        certificate: None where nothing was placed.
        program: None where nothing was lowered.
        simulation: of the program, with the inferences of the report; None where none was played.
        graphs: the chips' models by chip, or None to do without.
        source: the annotated source model, or None to do without.
        mapped: how chips are laid out that are fabrics.
    """

    manifest: Manifest
    target: Target
    certificate: Certificate | None
    program: LoweredProgram | None
    simulation: SimulationResult | None
    graphs: Mapping[int, ir.Graph] | None
    source: ir.Model | None
    mapped: Sequence[MappedChip] = ()


def derive_report(sources: Sources) -> Derived:
    """All fields that follow from `sources`, nested as in the report."""
    manifest, simulation = sources.manifest, sources.simulation
    certificate, replicas = sources.certificate, sources.manifest.replicas
    package = certificate.claim("package") if certificate else None
    pipeline = certificate.claim("pipeline") if certificate else None
    period_s = simulation.period_s / replicas if simulation else None
    analytic_s = certificate.period_s / replicas if certificate else None
    bound_s = package.seconds if package else None
    found: Derived = {
        "schema_version": REPORT_SCHEMA_VERSION,
        "model": _model(sources),
        "target": target_facts(sources.target),
        "routing": manifest.routing,
        "seed": manifest.seed,
        "pipeline": manifest.pipeline,
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
        "learned_gain": certificate.learned.share if certificate and certificate.learned else None,
        "gap": gap(period_s, bound_s),
        "analytic_gap": gap(analytic_s, bound_s),
        "steady_from": simulation.steady_from if simulation else None,
        "chips_used": replicas * len(manifest.chips),
        "clones": _rows(("node", "clone", "chip"), certificate.copies) if certificate else None,
        "relays": _rows(("tensor", "relay", "chip"), certificate.forwards) if certificate else None,
        "links": link_rows(simulation) if simulation else None,
        "replication": {
            "replicas": replicas,
            "chips_each": manifest.chips_each,
            "pipeline_period_s": finite(simulation.period_s) if simulation else None,
            "pipeline_bound_s": finite(pipeline.seconds) if pipeline else None,
            "considered": [count_facts(one) for one in certificate.considered]
            if certificate
            else [],
            "chips": [asdict(role) for role in manifest.placement],
        },
        "options": _options(sources),
    }
    if sources.source is not None:
        found[STORAGE_SECTION] = stored_widths(sources.source.graph, sources.target)
    chosen = cost_choice_facts(sources.target)
    if chosen is not None:
        found[COST_SECTION] = chosen
    if (states := _states(sources)) is not None:
        found[STATE_SECTION] = states
    if (fabrics := fabric_facts(sources.target, sources.mapped)) is not None:
        found[FABRIC_SECTION] = fabrics
    figures = certificate.figures if certificate else None
    pipeline_s = certificate.period_s if certificate else None
    if (facts := objective_facts(figures, pipeline_s, simulation, replicas)) is not None:
        found[OBJECTIVE_SECTION] = facts
    if sources.graphs is not None:
        if chosen is not None:
            coverage = _coverage(sources, sources.graphs)
            found[COST_SECTION] = {**chosen, "coverage": coverage}
        ops_of = {chip: len(placeable_nodes(graph)) for chip, graph in sources.graphs.items()}
        sram = sources.target.limits.sram_bytes
        found["chips"] = chip_rows(simulation, sources.program, ops_of, sram)
        found["bottleneck"] = _bottleneck(sources, sources.graphs)
        hosted = host_facts(sources.target, sources.graphs, simulation, replicas)
        if hosted is not None:
            found[HOST_SECTION] = hosted
        energy = energy_facts(sources.target, sources.graphs, simulation, replicas)
        if energy is not None:
            found[ENERGY_SECTION] = energy
        withdraw_claims(found, assumptions_of(sources.graphs.values()))
    return found


def _states(sources: Sources) -> StateFacts | None:
    manifest = sources.manifest
    if sources.program is None:
        return None
    return state_facts(
        manifest.states.held,
        (manifest.inputs, manifest.outputs),
        sources.program,
        sources.simulation,
        sources.target,
        Replication(manifest.replicas, manifest.chips_each),
    )


def _coverage(sources: Sources, graphs: Mapping[int, ir.Graph]) -> CoverageFacts | None:
    certificate = sources.certificate
    rows = (*certificate.copies, *certificate.forwards) if certificate else ()
    in_order = [graphs[chip] for chip in sorted(graphs)]
    return coverage_facts(sources.target, in_order, {added for _, added, _ in rows})


def _model(sources: Sources) -> Derived:
    manifest = sources.manifest
    facts: Derived = {
        "name": manifest.model,
        "sha256": manifest.model_sha256,
        "shape_only": manifest.shape_only,
    }
    return facts | (graph_facts(sources.source.graph) if sources.source is not None else {})


def _options(sources: Sources) -> Derived:
    """What was asked for, as far as the folder tells."""
    manifest = sources.manifest
    options: Derived = {
        "seed": manifest.seed,
        "routing": manifest.routing,
        "dims": dict(manifest.dims),
        "shapes": {name: list(shape) for name, shape in manifest.shapes.items()},
    }
    if manifest.counted.inferences:
        options["inferences"] = manifest.counted.inferences
    if sources.certificate is not None:
        options["pins"] = [list(pin) for pin in sources.certificate.pins]
        if (figures := sources.certificate.figures) is not None:
            options["objective"] = figures.objective.kind
            if (limit_s := figures.objective.max_latency_s) is not None:
                options["max_latency_s"] = limit_s
            if (rate := figures.objective.throughput_per_s) is not None:
                options["throughput"] = rate
    return options


def _bottleneck(sources: Sources, graphs: Mapping[int, ir.Graph]) -> Any:
    if sources.simulation is None:
        return None
    limits = sources.target.limits
    if sources.manifest.chips_each:
        limits = limits.first(sources.manifest.chips_each)
    machine = machine_of(sources.target)
    certificate = None if assumptions_of(graphs.values()) else sources.certificate
    return find_bottleneck(
        sources.simulation, sources.program, limits, graphs, machine, certificate
    )


def _rows(keys: tuple[str, str, str], rows: tuple[tuple[str, str, int], ...]) -> list[Derived]:
    return [dict(zip(keys, row, strict=True)) for row in rows]
