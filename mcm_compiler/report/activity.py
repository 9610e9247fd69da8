"""Work of each chip and each link for one inference, as rows of the report and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.program import (
    ChipProgram,
    Kernel,
    LinkActivity,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.contracts.target import Target, cost_model_on
from mcm_compiler.diagnostics import quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT, Machine
from mcm_compiler.report.hardware.figures import without_dust
from mcm_compiler.report.records.activity import ChipRow, LinkRow, LoadedTensor, OpRow
from mcm_compiler.text.json_text import row_of
from mcm_compiler.text.units import bytes_text, count_text, percent_text

MAC_OPS = frozenset(
    {"Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger", "QLinearConv",
     "QLinearMatMul"}
)  # fmt: skip
"""Types of ops on the MAC array, which dominate the kernels that they are in."""


def chip_rows(
    simulation: SimulationResult | None,
    program: LoweredProgram | None,
    graphs: Mapping[int, ir.Graph],
    sram_bytes: Sequence[int] | None,
) -> list[ChipRow]:
    """One row per used chip, ascending; entries are None where nothing computed them.

    Args:
        simulation: gives busy and stall times.
        program: gives kernels and memory.
        graphs: the chips' models by chip; empty where the graph was not split.
        sram_bytes: `[num_chips]`, SRAM of each chip, or None where the target is unknown.
    """
    activities = {chip.chip: chip for chip in simulation.chips} if simulation else {}
    programs = {chip.chip: chip for chip in program.chips} if program else {}
    ops_of = {chip: len(placeable_nodes(graph)) for chip, graph in graphs.items()}
    rows: list[ChipRow] = []
    for chip in sorted({*activities, *programs, *graphs}):
        activity, lowered = activities.get(chip), programs.get(chip)
        row: Any = dict.fromkeys(ChipRow.__annotations__)
        row |= {"chip": chip, "ops": ops_of.get(chip)}
        if sram_bytes and chip < len(sram_bytes):
            row["sram_bytes"] = sram_bytes[chip]
        if activity and simulation:
            stalls, engines = sorted(activity.stall_s.items()), sorted(activity.engine_s.items())
            row |= {
                "busy_s": activity.busy_s,
                "utilisation": share(activity.busy_s, simulation),
                "stall_s": {why: without_dust(s, simulation.period_s) for why, s in stalls},
                "engine_s": dict(engines),
                "engine_utilisation": {name: share(busy, simulation) for name, busy in engines},
                "sram_high_water_bytes": activity.high_water_bytes,
            }
        if lowered:
            row |= {
                "ops": ops_of.get(chip, sum(len(kernel.nodes) for kernel in lowered.kernels)),
                "kernels": len(lowered.kernels),
                "weight_bytes": lowered.weight_bytes,
                "sram_high_water_bytes": lowered.high_water_bytes,
                "heaviest_op": next(iter(heaviest_ops(lowered, 1, graphs.get(chip))), None),
            }
        rows.append(row)
    return rows


def link_rows(simulation: SimulationResult) -> list[LinkRow]:
    """One row per used link, host links included, in ring order."""
    return [
        row_of(
            LinkRow,
            link,
            utilisation=share(link.busy_s, simulation),
            queue_s=without_dust(link.queue_s, simulation.period_s),
        )
        for link in sorted(simulation.links, key=lambda link: (link.source, link.destination))
    ]


def share(busy_s: float, simulation: SimulationResult) -> float | None:
    """The part of the period that a resource is busy; None for a period of no length."""
    return busy_s / simulation.period_s if simulation.period_s > 0 else None


def heaviest_ops(
    program: ChipProgram | None,
    count: int,
    graph: ir.Graph | None = None,
    target: Target | None = None,
) -> list[OpRow]:
    """The kernels that take a chip's time, longest first; ties in program order.

    Args:
        program: of the chip.
        count: how many to return.
        graph: the chip's model, which has the types of ops.
        target: says how long they keep each engine busy.
    """
    kernels = sorted(program.kernels, key=lambda kernel: -kernel.duration_s) if program else []
    nodes = {node.name: node for node in graph or ()}
    types = {name: node.op_type for name, node in nodes.items()}
    rows = [_kernel_row(kernel, types) for kernel in kernels[:count]]
    if program is not None and target is not None:
        model, speeds = cost_model_on(target, program.chip), target.limits.chip_speed
        speed = speeds[program.chip] if speeds else 1.0
        for row, kernel in zip(rows, kernels, strict=False):
            # A mapped chip is one kernel, whose ops are no launches of their own.
            if kernel.latency_s == 0.0 and all(name in nodes for name in kernel.nodes):
                cost = model.group_cost([nodes[name] for name in kernel.nodes])
                row["launch_s"] = kernel.launch_s
                if (busy := cost.engines_s) is not None:
                    row["engines_s"] = {name: s / speed for name, s in busy.items()}
                    row["lane_ops"] = cost.lane_ops
    return rows


def _kernel_row(kernel: Kernel, types: Mapping[str | None, str]) -> OpRow:
    row: OpRow = {"name": kernel.name, "ops": len(kernel.nodes), "seconds": kernel.duration_s}
    known = [name for name in kernel.nodes if name in types]
    if len(kernel.nodes) > 1 and known:
        known.sort(key=lambda name: types[name] not in MAC_OPS)
        row["kinds"] = [*dict.fromkeys(types[name] for name in known)]
        scopes = zip(*(name.split("/")[:-1] for name in kernel.nodes), strict=False)
        shared = takewhile(lambda parts: len({*parts}) == 1, scopes)
        row["layer"] = "/".join(parts[0] for parts in shared) or known[0]
    return row


def heaviest_tensors(
    program: LoweredProgram | None, source: int, destination: int, count: int, machine: Machine
) -> list[LoadedTensor]:
    """The tensors that load a channel most, largest first.

    Args:
        program: has the transfers.
        source: where the channel comes from, as in `LinkActivity`.
        destination: where it goes to.
        count: how many to return.
        machine: has the routes.
    """
    transfers = program.transfers if program else ()
    crossing = [t for t in transfers if _crosses(t, source, destination, machine)]
    largest = sorted(crossing, key=lambda t: -t.size_bytes)[:count]
    return [{"name": t.tensor, "bytes": t.size_bytes} for t in largest]


def _crosses(transfer: Transfer, source: int, destination: int, machine: Machine) -> bool:
    """Return True if the route of a transfer goes over a channel."""
    route = machine.route(transfer.source, transfer.destination)
    ends = machine.channel_ends[list(route)]
    return bool((ends == (source, destination)).all(axis=1).any())


def is_shared(source: int, destination: int) -> bool:
    """Return True if all chips share the channel between these places."""
    return not {source, destination}.isdisjoint((HOST_ROOT, OFF_PACKAGE_ROOT))


def shared_tensors(channel: LinkActivity, program: LoweredProgram) -> list[LoadedTensor]:
    """`name` and `bytes` of what one pipeline sends over the channel, largest sum first.

    A tensor that several chips read crosses the channel once for each of them.
    """
    total: Counter[str] = Counter()
    for transfer in _crossing(channel, program):
        total[transfer.tensor] += transfer.size_bytes
    ranked = sorted(total.items(), key=lambda item: -item[1])
    return [{"name": name, "bytes": size} for name, size in ranked]


def shared_filling(channel: LinkActivity, program: LoweredProgram, largest: LoadedTensor) -> str:
    """The part of the channel's bytes that the largest tensor takes."""
    load = channel.bytes_per_inference
    one = sum(t.size_bytes for t in _crossing(channel, program))
    pipelines = load // one if one else 1
    of = f" for {pipelines} pipelines" if pipelines > 1 else ""
    part = percent_text(largest["bytes"] * pipelines / load)
    return f", {part} of its {bytes_text(load)}{of} is {quote(largest['name'])}"


def shared_levers(channel: LinkActivity, program: LoweredProgram | None) -> str:
    """Remedy for more throughput where this channel sets the pace."""
    if channel.source == OFF_PACKAGE_ROOT:
        return (
            "more pipelines do not help, only memory for more of the weights, as on more chips of "
            "each pipeline, or a faster channel"
        )
    crossing = _crossing(channel, program) if program is not None else []
    copies = sum(t.size_bytes for t in crossing)
    copies -= sum({t.tensor: t.size_bytes for t in crossing}.values())
    levers = ["smaller inputs" if channel.source == HOST_ROOT else "smaller outputs"]
    if copies:
        transfers = count_text(len(crossing), "transfer")
        levers.append(
            f"fewer chips that read the same input ({bytes_text(copies)} of the {transfers} of an "
            "inference are copies)"
        )
    return (
        f"neither more pipelines nor more chips help, only {', '.join(levers)} or a faster channel"
    )


def _crossing(channel: LinkActivity, program: LoweredProgram) -> list[Transfer]:
    place = {HOST_ROOT: HOST, OFF_PACKAGE_ROOT: OFF_PACKAGE}.get(channel.source)
    if place is not None:
        return [t for t in program.transfers if t.source == place]
    return [t for t in program.transfers if t.destination == HOST]
