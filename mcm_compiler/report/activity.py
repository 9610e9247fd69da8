"""What each chip and each link does for one inference, as rows of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mcm_compiler.contracts.program import (
    ChipActivity,
    ChipProgram,
    Kernel,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.machines.machine import Machine
from mcm_compiler.report.hardware.figures import without_dust

if TYPE_CHECKING:
    from mcm_compiler.report.records.activity import ChipRow, LinkRow, LoadedTensor, OpRow


def chip_rows(
    simulation: SimulationResult | None,
    program: LoweredProgram | None,
    ops_of: Mapping[int, int],
    sram_bytes: Sequence[int] | None,
) -> list[ChipRow]:
    """One row per used chip, ascending; entries are None where nothing computed them.

    Args:
        simulation: gives busy and stall times.
        program: gives kernels and memory.
        ops_of: placed ops by chip, from the split models; empty where the graph was not split.
        sram_bytes: `[num_chips]`, SRAM of each chip, or None where the target is unknown.
    """
    activities = {chip.chip: chip for chip in simulation.chips} if simulation else {}
    programs = {chip.chip: chip for chip in program.chips} if program else {}
    rows: list[ChipRow] = []
    for chip in sorted({*activities, *programs, *ops_of}):
        activity, lowered = activities.get(chip), programs.get(chip)
        high_water = lowered.high_water_bytes if lowered else None
        if high_water is None and activity is not None:
            high_water = activity.high_water_bytes
        rows.append(
            {
                "chip": chip,
                "ops": ops_of[chip] if chip in ops_of else _ops_of_kernels(lowered),
                "kernels": len(lowered.kernels) if lowered else None,
                "busy_s": activity.busy_s if activity else None,
                "utilisation": share(activity.busy_s, simulation)
                if activity and simulation
                else None,
                "stall_s": {
                    reason: without_dust(seconds, simulation.period_s)
                    for reason, seconds in sorted(activity.stall_s.items())
                }
                if activity and simulation
                else None,
                "engine_s": dict(sorted(activity.engine_s.items())) if activity else None,
                "engine_utilisation": _engine_shares(activity, simulation)
                if activity and simulation
                else None,
                "weight_bytes": lowered.weight_bytes if lowered else None,
                "sram_high_water_bytes": high_water,
                "sram_bytes": sram_bytes[chip] if sram_bytes and chip < len(sram_bytes) else None,
                "heaviest_op": next(iter(heaviest_ops(lowered, 1)), None),
            }
        )
    return rows


def link_rows(simulation: SimulationResult) -> list[LinkRow]:
    """One row per used link, host links included, in ring order."""
    return [
        {
            "source": link.source,
            "destination": link.destination,
            "busy_s": link.busy_s,
            "utilisation": share(link.busy_s, simulation),
            "bytes_per_inference": link.bytes_per_inference,
            "queue_s": without_dust(link.queue_s, simulation.period_s),
        }
        for link in sorted(simulation.links, key=lambda link: (link.source, link.destination))
    ]


def share(busy_s: float, simulation: SimulationResult) -> float | None:
    """The part of the period that a resource is busy; None for a period of no length."""
    return busy_s / simulation.period_s if simulation.period_s > 0 else None


def _engine_shares(activity: ChipActivity, simulation: SimulationResult) -> dict[str, float | None]:
    """The part of the period that each engine of a chip sets the pace for."""
    return {name: share(busy, simulation) for name, busy in sorted(activity.engine_s.items())}


def heaviest_ops(program: ChipProgram | None, count: int) -> list[OpRow]:
    """The kernels that take a chip's time, longest first; ties in program order."""
    if program is None:
        return []

    def longest_first(kernel: Kernel) -> float:
        return -kernel.duration_s

    kernels = sorted(program.kernels, key=longest_first)[:count]
    return [
        {"name": kernel.name, "ops": len(kernel.nodes), "seconds": kernel.duration_s}
        for kernel in kernels
    ]


def heaviest_tensors(
    program: LoweredProgram | None,
    source: int,
    destination: int,
    count: int,
    machine: Machine | None = None,
) -> list[LoadedTensor]:
    """The tensors that load a channel most, largest first.

    Args:
        program: tells the transfers.
        source: where the channel comes from, as in `LinkActivity`.
        destination: where it goes to.
        count: how many to return.
        machine: tells the routes; where None, tensors on their way to further places are missed.
    """
    if program is None:
        return []
    crossing = [t for t in program.transfers if _crosses(t, source, destination, machine)]
    largest = sorted(crossing, key=lambda t: -t.size_bytes)[:count]
    return [{"name": t.tensor, "bytes": t.size_bytes} for t in largest]


def _crosses(transfer: Transfer, source: int, destination: int, machine: Machine | None) -> bool:
    """Whether the route of a transfer goes over a channel."""
    if machine is None:
        return (transfer.source, transfer.destination) == (source, destination)
    route = machine.route(transfer.source, transfer.destination)
    ends = machine.channel_ends[list(route)]
    return bool((ends == (source, destination)).all(axis=1).any())


def _ops_of_kernels(program: ChipProgram | None) -> int | None:
    return sum(len(kernel.nodes) for kernel in program.kernels) if program else None
