"""Lowering of mapped chips: each is one kernel that takes a measured period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import OP_KINDS, Fabric
from mcm_compiler.contracts.fabrics.target import MappedChip
from mcm_compiler.contracts.program import Buffer, ChipProgram, Kernel, LoweredProgram
from mcm_compiler.contracts.target import ChipModel, Wire
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.machines.machine import Machine
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.package.transfer_plan import TransferPlan, plan_transfers

KERNEL = "mapped ops"
"""Name of the one kernel of a chip."""

_WEIGHTS = OP_KINDS.index("weights")


def lower_mapped(
    target: str,
    machine: Machine,
    fabric: Fabric,
    chip: ChipSpec,
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    mapped: Sequence[MappedChip],
) -> LoweredProgram:
    """The program of chips that are pipelines of units.

    A chip takes an inference each period, and the results of one are there after its latency.
    Buffers are those of memory units; tensors that come and go lie behind memory channels.

    Args:
        target: name of the package.
        machine: its devices, channels and routes.
        fabric: each chip.
        chip: its numbers as one array.
        chips: one model per used chip, ascending.
        wires: tensors between chips and the host.
        mapped: the mapping of each of these chips.

    Raises:
        ValueError: where a chip has no mapping, or wires and models contradict each other.
    """
    sizes: dict[str, int] = {}
    for model in chips:
        for value in (*model.model.graph.inputs, *model.model.graph.outputs):
            name, size = value.name or "", chip.storage.value_bytes(value)
            sizes[name] = max(size, sizes.get(name, 0))
    plan = plan_transfers(wires, sizes, machine)
    of_chip = {one.chip: one for one in mapped}
    if missing := [model.chip for model in chips if model.chip not in of_chip]:
        raise ValueError(f"chips {missing} have no mapping")
    transfers = list(plan.transfers)
    for (place, tensor), sent in plan.leaving.items():
        if (place, tensor) in plan.arriving:
            for index in sent:
                transfers[index] = replace(transfers[index], after=plan.arriving[place, tensor])
    programs = [_program(model, of_chip[model.chip], fabric, plan) for model in chips]
    return LoweredProgram(target, tuple(programs), tuple(transfers))


def _program(
    model: ChipModel, mapped: MappedChip, fabric: Fabric, plan: TransferPlan
) -> ChipProgram:
    graph, chip = model.model.graph, model.chip
    used = {value.name or "" for value in graph.inputs if value.uses()}
    reads = (plan.arriving.get((chip, name), -1) for name in sorted(used))
    writes = [
        index
        for (place, tensor), sent in plan.leaving.items()
        if place == chip and (place, tensor) not in plan.arriving
        for index in sent
    ]
    kernel = Kernel(
        name=KERNEL,
        nodes=tuple(node.name or "" for node in placeable_nodes(graph)),
        duration_s=mapped.period_cycles / fabric.clock_hz,
        reads=tuple(sorted(index for index in reads if index >= 0)),
        writes=tuple(sorted(writes)),
        engine="array",
        latency_s=max(mapped.latency_cycles - mapped.period_cycles, 0.0) / fabric.clock_hz,
    )
    buffers = _buffers(mapped)
    return ChipProgram(
        chip=chip,
        kernels=(kernel,),
        buffers=buffers,
        high_water_bytes=sum(buffer.size_bytes for buffer in buffers),
        weight_bytes=sum(b.size_bytes for b in buffers if b.kind == "weight"),
    )


def _buffers(mapped: MappedChip) -> tuple[Buffer, ...]:
    """Contents of each memory unit, one after the other."""
    problem = mapped.problem
    found: list[Buffer] = []
    address = 0
    for unit in np.flatnonzero(problem.memory_bytes > 0).tolist():
        size = int(problem.memory_bytes[unit])
        stage = problem.stages[int(problem.stage[unit])]
        weights = int(problem.op[unit]) == _WEIGHTS
        name = f"{stage}: {'weights' if weights else 'samples'} in unit {unit}"
        kind = "weight" if weights else "activation"
        found.append(Buffer(name, kind, address, size, 0, 0))
        address += size
    return tuple(found)
