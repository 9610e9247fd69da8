"""Diagnostic of a chip whose memory plan does not fit: its demand, and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.program import Lever, MemoryOverflow, Transfer
from mcm_compiler.diagnostics import quote
from mcm_compiler.graph.states import copies_held
from mcm_compiler.machines.machine import OFF_PACKAGE, Machine
from mcm_compiler.text.units import bytes_text, count_text
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.memory.activation_plan import buffer_bytes, state_buffer_bytes
from mcm_hardware.memory.memory_plan import MemoryPlan
from mcm_hardware.memory.stream_plan import plan_stream

LARGEST_SHOWN = 5
"""Buffers that an overflow names."""


@dataclass(frozen=True)
class PlannedChip:
    """A chip with its tensors and its memory plan.

    Attributes:
        chip: its index.
        flow: its tensors.
        memory: the plan.
    """

    chip: int
    flow: ChipDataflow
    memory: MemoryPlan


def find_overflows(
    planned: Sequence[PlannedChip],
    transfers: Sequence[Transfer],
    machine: Machine,
    specs: Sequence[ChipSpec],
) -> tuple[MemoryOverflow, ...]:
    """The dynamic constraint H(G, f) of MCM, equation 5: one entry per chip that breaks it.

    Args:
        planned: all used chips.
        transfers: all transfers of the package.
        machine: devices, channels and routes.
        specs: the chips, one for each device.
    """
    free = sum(chip.sram_bytes for chip in specs)
    for one in planned:
        limit = specs[one.chip].sram_bytes
        free -= min(one.memory.high_water_bytes, limit)
    return tuple(
        _overflow(one, transfers, machine, specs[one.chip], free)
        for one in planned
        if one.memory.high_water_bytes > specs[one.chip].sram_bytes
    )


def _overflow(
    one: PlannedChip,
    transfers: Sequence[Transfer],
    machine: Machine,
    numbers: ChipSpec,
    free_elsewhere: int,
) -> MemoryOverflow:
    memory = one.memory
    excess = memory.high_water_bytes - numbers.sram_bytes
    levers = [
        *_another_split(excess, free_elsewhere),
        *_shard(one.flow, numbers, excess, machine.num_devices),
        *_relay_less(one.flow, transfers, numbers, machine.channel_slots),
        *_stream(one, machine, numbers, excess),
        *_fewer_states(one.flow, numbers),
    ]
    largest = sorted(memory.buffers, key=lambda b: (-b.size_bytes, b.address))[:LARGEST_SHOWN]
    return MemoryOverflow(
        chip=one.chip,
        demand_bytes=memory.high_water_bytes,
        limit_bytes=numbers.sram_bytes,
        largest=tuple((b.name, b.size_bytes) for b in largest),
        weight_bytes=memory.bytes_of.get("weight", 0),
        channel_bytes=memory.bytes_of.get("receive", 0) + memory.bytes_of.get("send", 0),
        activation_bytes=memory.bytes_of.get("activation", 0),
        state_bytes=memory.bytes_of.get("state", 0),
        levers=tuple(lever for lever in levers if lever.frees_bytes >= excess) or tuple(levers),
    )


def _another_split(excess: int, free_elsewhere: int) -> Iterator[Lever]:
    """Other chips take what is too much; ops cannot be cut, so that this is no promise."""
    if free_elsewhere >= excess:
        text = f"another split: the other chips have {bytes_text(free_elsewhere)} free"
        yield Lever(text, excess)


def _shard(flow: ChipDataflow, chip: ChipSpec, excess: int, num_chips: int) -> Iterator[Lever]:
    """The op with the largest weight in as few pieces as suffice, on a chip each."""
    sizes = [chip.storage.value_bytes(value) for value in flow.weights]
    if not sizes or max(sizes) == 0 or num_chips < 2:
        return
    weight = flow.weights[sizes.index(max(sizes))]
    node = _reader(flow, weight)
    if node is None:
        return
    size = max(sizes)
    spare = size - excess
    pieces = min(-(-size // spare), num_chips) if spare > 0 else num_chips
    pieces = max(pieces, 2)
    yield Lever(
        f"shard op {quote(node.name or '')} in {pieces}: its weight takes {bytes_text(size)}",
        size - -(-size // pieces),
    )


def _reader(flow: ChipDataflow, weight: ir.Value) -> ir.Node | None:
    """The first node that reads `weight` itself, not through a view."""
    for kernel in flow.readers.get(weight, ()):
        for node in flow.kernels[kernel].nodes:
            if weight in node.inputs:
                return node
    return None


def _relay_less(
    flow: ChipDataflow, transfers: Sequence[Transfer], chip: ChipSpec, slots: int
) -> Iterator[Lever]:
    """Tensors that come only to be sent on keep their receive and send buffers full."""
    count, size = 0, 0
    for position, kernel in enumerate(flow.kernels):
        node = kernel.nodes[0]
        if len(kernel.nodes) > 1 or (node.domain, node.op_type) != ("", "Identity"):
            continue
        source, made = node.inputs[0], node.outputs[0]
        if source is None or source not in flow.arriving or made not in flow.leaving:
            continue
        count += 1
        size += slots * buffer_bytes(chip, chip.storage.value_bytes(made))
        if flow.readers.get(source) == (position,):
            transfer = transfers[flow.arriving[source]]
            size += transfer.slots * buffer_bytes(chip, transfer.size_bytes)
    if count:
        relays = count_text(count, "relay")
        verb = "takes" if count == 1 else "take"
        yield Lever(f"relay fewer tensors: {relays} {verb} {bytes_text(size)}", size)


def _fewer_states(flow: ChipDataflow, chip: ChipSpec) -> Iterator[Lever]:
    """States of one sequence instead of those of all that are asked for."""
    size = sum(
        (state.buffers - copies_held(state.past, state.present, 1))
        * state_buffer_bytes(chip, state)
        for state in flow.states
    )
    if size:
        yield Lever(f"hold fewer sequences: their states take {bytes_text(size)}", size)


def _stream(one: PlannedChip, machine: Machine, chip: ChipSpec, excess: int) -> Iterator[Lever]:
    """Weights from off-package memory, where none leads to the chip yet."""
    streams = bool(machine.route(OFF_PACKAGE, one.chip))
    stream = None if streams else plan_stream(one.flow, chip, excess)
    if stream is not None:
        size = bytes_text(stream.streamed_bytes)
        yield Lever(
            f'stream weights (spill = "stream" in the target): {size} per inference', excess
        )
