"""Energy section of the report: joules of one inference by chip and kind.

Arithmetic and SRAM traffic are those of the kernels of the chips' models under the cost model;
what crosses links comes from the transfers that the simulator plays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import onnx_ir as ir

from mcm_compiler.contracts.chips import kernels_of
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.program import LinkActivity, SimulationResult
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE, Target, cost_model_on
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.machines.package_limits import ChipWork, Joules, area_of, energy_of, energy_on
from mcm_compiler.report.hardware.figures import finite
from mcm_compiler.report.records import sections
from mcm_compiler.text.json_text import row_of
from mcm_compiler.text.units import energy_text, percent_text

ENERGY_SECTION: Final = "energy"
"""Name of the field; reports lack it where the target says nothing of energy."""

KINDS: Mapping[str, str] = {
    "compute_j": "compute",
    "sram_j": "SRAM",
    "links_j": "links",
    "memory_j": "memory",
    "host_j": "host",
}
"""Fields of `Joules`, and what they are called."""


def energy_facts(
    target: Target,
    graphs: Mapping[int, ir.Graph],
    simulation: SimulationResult | None,
    replicas: int,
    classes: int = 1,
) -> sections.EnergyFacts | None:
    """The energy of one inference; None where the target says nothing of it, or nothing was played.

    Args:
        target: the package.
        graphs: the chips' models by chip, those of one pipeline.
        simulation: of one pipeline.
        replicas: pipelines side by side; each inference takes one of them.
        classes: inferences that a pipeline computes together, in one period.
    """
    if energy_of(target) is None or simulation is None or not graphs:
        return None
    models = {chip: cost_model_on(target, chip) for chip in graphs}
    works = chip_works(models, graphs, simulation.links)
    costs = {chip: energy_on(target, chip) for chip in works}
    joules = {chip: one.of(works[chip]) for chip, one in costs.items() if one is not None}
    joules = {
        chip: Joules(**{kind: getattr(one, kind) / classes for kind in KINDS})
        for chip, one in joules.items()
    }
    total = {kind: math.fsum(getattr(one, kind) for one in joules.values()) for kind in KINDS}
    total_j = math.fsum(total.values())
    period_s = simulation.period_s / (replicas * classes)
    delay_s = finite(simulation.latency_s)
    chips: list[Any] = [
        {"chip": chip, **row_of(sections.JouleFacts, one)} for chip, one in sorted(joules.items())
    ]
    facts: Any = {
        **row_of(sections.JouleFacts, Joules(**total)),
        "total_j": total_j,
        "power_w": total_j / period_s if period_s > 0 else None,
        "energy_delay_js": None if delay_s is None else total_j * delay_s,
        "chips": chips,
    }
    if (area := area_of(target)) is not None:
        facts["package_mm2"] = area
    return facts


def chip_works(
    models: Mapping[int, CostModel], graphs: Mapping[int, ir.Graph], links: Sequence[LinkActivity]
) -> dict[int, ChipWork]:
    """Work of one inference on each chip.

    Args:
        models: of each chip; operations and bytes are the same at any speed.
        graphs: the chips' models by chip.
        links: what each link carries for one inference.
    """
    macs: dict[int, float] = {}
    sram: dict[int, int] = {}
    carried: dict[tuple[str, int], int] = {}
    for chip, graph in graphs.items():
        kernels = [models[chip].group_cost(nodes) for nodes in kernels_of(placeable_nodes(graph))]
        macs[chip] = math.fsum(cost.flops for cost in kernels if cost.trip is None) / 2
        sram[chip] = sum(cost.read_bytes + cost.write_bytes for cost in kernels)
        # What the host runs crosses its link, beside the transfers that the simulator plays.
        trips = sum(c.trip.up_bytes + c.trip.down_bytes for c in kernels if c.trip is not None)
        carried["host", chip] = trips
    for link in links:
        for key in _asked(link):
            carried[key] = carried.get(key, 0) + link.bytes_per_inference
    chips = sorted({*graphs, *(chip for _, chip in carried)})
    return {
        chip: ChipWork(
            macs.get(chip, 0.0),
            sram.get(chip, 0),
            carried.get(("link", chip), 0),
            carried.get(("memory", chip), 0),
            carried.get(("host", chip), 0),
        )
        for chip in chips
    }


def _asked(link: LinkActivity) -> Iterator[tuple[str, int]]:
    """The kind of a link, and the chip that its bytes count for; channels of all chips count not.

    What crosses such a channel crosses one of a single chip, too.
    """
    source, destination = link.source, link.destination
    if source >= 0 and destination >= 0:
        yield "link", source
    elif source == HOST and destination >= 0:
        yield "host", destination
    elif destination == HOST and source >= 0:
        yield "host", source
    elif source == OFF_PACKAGE and destination >= 0:
        yield "memory", destination


def energy_sentence(report: Mapping[str, Any]) -> str | None:
    """The energy of an inference and where it goes; None where nothing is known of it."""
    found = report.get(ENERGY_SECTION)
    if found is None:
        return None
    total = found["total_j"]
    shares = sorted(((found[kind], name) for kind, name in KINDS.items()), reverse=True)
    parts = ", ".join(
        f"{name} {percent_text(value / total)}" for value, name in shares if value > 0
    )
    text = f"{energy_text(total)} per inference{f': {parts}' if parts else ''}"
    if found["power_w"] is not None:
        text += f"; {found['power_w']:.3g} W at this throughput"
    if found["energy_delay_js"] is not None:
        text += f"; energy-delay product {found['energy_delay_js']:.3g} Js"
    return f"{text} (nominal, without leakage)"


def area_sentence(report: Mapping[str, Any]) -> str | None:
    """The area of the package; None where nothing is known of it."""
    found = report.get(ENERGY_SECTION)
    if found is None or "package_mm2" not in found:
        return None
    return f"{found['package_mm2']:,.0f} mm2 (nominal)"
