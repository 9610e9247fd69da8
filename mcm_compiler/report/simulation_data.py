"""A simulation of a compiled folder as plain data, in the fields of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.contracts.program import LoweredProgram, SimulationResult
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.machines.machine import Machine
from mcm_compiler.report.activity import chip_rows, link_rows
from mcm_compiler.report.bottleneck import find_bottleneck


def simulation_data(
    simulation: SimulationResult,
    program: LoweredProgram,
    limits: PackageLimits,
    graphs: Mapping[int, ir.Graph],
    machine: Machine | None,
    replicas: int = 1,
    certificate: Certificate | None = None,
) -> dict[str, Any]:
    """The simulation as JSON-able data: what the report says of a simulation.

    Args:
        simulation: what the simulator measured.
        program: what was simulated.
        limits: numbers of the package.
        graphs: the chips' models by chip.
        machine: devices, channels and routes of the package.
        replicas: pipelines like the simulated one side by side.
        certificate: what was placed and where, which tells what moving ops would bring.
    """
    period_s = simulation.period_s / replicas
    flight = {"sequences": program.sequences} if program.sequences else {}
    ops_of = {chip: len(placeable_nodes(graph)) for chip, graph in graphs.items()}
    return {
        "simulator": simulation.simulator,
        "inferences": simulation.inferences,
        "steady_from": simulation.steady_from,
        "replicas": replicas,
        **flight,
        "throughput_per_s": 1.0 / period_s if period_s > 0 else None,
        "period_s": period_s,
        "latency_s": simulation.latency_s,
        "bottleneck": find_bottleneck(simulation, program, limits, graphs, machine, certificate),
        "chips": chip_rows(simulation, program, ops_of, limits.sram_bytes),
        "links": link_rows(simulation),
    }
