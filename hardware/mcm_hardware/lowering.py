"""Lowering: from one model per chip to programs with durations, addresses and transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcm_compiler.program import ChipProgram, Kernel, LoweredProgram, MemoryOverflow
from mcm_compiler.target import ChipModel, Wire
from mcm_hardware.chip_dataflow import ChipDataflow, chip_dataflow
from mcm_hardware.chip_spec import ChipSpec, RingSpec
from mcm_hardware.cycle_model import copy_seconds, cycle_model
from mcm_hardware.memory_plan import overflow_of, plan_memory
from mcm_hardware.transfer_plan import plan_transfers


def lower(
    target: str, spec: RingSpec, chips: Sequence[ChipModel], wires: Sequence[Wire]
) -> LoweredProgram:
    """Schedules each chip's ops, plans its memory and its transfers.

    Kernels run in the order of the chip's model; a fusion group is one kernel. Durations come from
    the cycle model. A chip that does not fit is data in `overflows`.

    Args:
        target: name of the package.
        spec: its numbers.
        chips: one model per used chip, ascending.
        wires: tensors between chips and the host.

    Raises:
        ValueError: where wires and models contradict each other; a fault of the splitter.
    """
    sizes: dict[str, int] = {}
    storage = spec.reference.storage
    for chip in chips:
        for value in (*chip.model.graph.inputs, *chip.model.graph.outputs):
            # A name means the same tensor on all chips, but its shape may be known on one only.
            name, size = value.name or "", storage.value_bytes(value)
            sizes[name] = max(size, sizes.get(name, 0))
    plan = plan_transfers(wires, sizes, spec.channel_slots)
    programs: list[ChipProgram] = []
    overflows: list[MemoryOverflow] = []
    passed_on: dict[int, int] = {}
    for chip in chips:
        numbers = spec.chips[chip.chip]
        flow = chip_dataflow(chip, plan.arriving, plan.leaving)
        memory = plan_memory(flow, plan.transfers, numbers, spec.channel_slots)
        programs.append(
            ChipProgram(
                chip=chip.chip,
                kernels=_kernels(flow, numbers),
                buffers=memory.buffers,
                high_water_bytes=memory.high_water_bytes,
                weight_bytes=memory.weight_bytes,
            )
        )
        overflow = overflow_of(memory, chip.chip, numbers.sram_bytes)
        if overflow is not None:
            overflows.append(overflow)
        passed_on |= _passed_on(flow)
    transfers = tuple(
        replace(transfer, after=passed_on.get(index, transfer.after))
        for index, transfer in enumerate(plan.transfers)
    )
    return LoweredProgram(target, tuple(programs), transfers, tuple(overflows))


def _kernels(flow: ChipDataflow, spec: ChipSpec) -> tuple[Kernel, ...]:
    model = cycle_model(spec)
    durations = [model.group_cost(kernel.nodes).seconds for kernel in flow.kernels]
    for position, value in flow.copies:
        copy = copy_seconds(spec, spec.storage.value_bytes(value))
        durations[position] = max(durations[position], copy)
    reads: list[list[int]] = [[] for _ in flow.kernels]
    for value, transfer in flow.arriving.items():
        for position in flow.readers.get(value, ()):
            reads[position].append(transfer)
    writes: list[list[int]] = [[] for _ in flow.kernels]
    for value, transfers in flow.leaving.items():
        if value in flow.writer:
            writes[flow.writer[value]].extend(transfers)
    return tuple(
        Kernel(
            name=kernel.name,
            nodes=tuple(node.name or "" for node in kernel.nodes),
            duration_s=duration,
            reads=tuple(sorted(read)),
            writes=tuple(sorted(written)),
        )
        for kernel, duration, read, written in zip(
            flow.kernels, durations, reads, writes, strict=True
        )
    )


def _passed_on(flow: ChipDataflow) -> dict[int, int]:
    """Transfers that send a tensor on as it came, with the transfer that brought it."""
    return {
        transfer: flow.arriving[value]
        for value, transfers in flow.leaving.items()
        if value in flow.arriving
        for transfer in transfers
    }
