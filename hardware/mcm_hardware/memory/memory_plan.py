"""The memory plan of one chip: a buffer with an address for everything that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.program import (
    Buffer,
    BufferKind,
    Lever,
    MemoryOverflow,
    Queue,
    Transfer,
)
from mcm_compiler.diagnostics import quote
from mcm_compiler.graph.states import copies_held
from mcm_compiler.machines.machine import OFF_PACKAGE, Machine
from mcm_compiler.text.units import bytes_text, count_text
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.memory.activation_plan import ActivationPlan, buffer_bytes, state_buffer_bytes
from mcm_hardware.memory.stream_plan import WeightStream, plan_stream


@dataclass(frozen=True)
class MemoryPlan:
    """SRAM of one chip.

    Attributes:
        buffers: weights, stream, state, receive and send buffers from the bottom, then activations.
        high_water_bytes: end of the highest buffer.
        bytes_of: bytes of all buffers of a kind; for activations from the lowest to the highest.
        queues: as in `ChipProgram`.
    """

    buffers: tuple[Buffer, ...]
    high_water_bytes: int
    bytes_of: Mapping[BufferKind, int]
    queues: tuple[Queue, ...] = ()


def plan_memory(
    flow: ChipDataflow,
    transfers: Sequence[Transfer],
    spec: ChipSpec,
    activations: ActivationPlan,
    stream: WeightStream | None = None,
    queues: tuple[Queue, ...] = (),
) -> MemoryPlan:
    """Gives every buffer of a chip its address.

    - Weights stay all the time, each once, unless they are streamed.
    - States stay all the time, those of all sequences in flight next to each other.
    - A tensor that arrives has `Transfer.slots` receive buffers, one that leaves has as many send
      buffers, of several transfers the most: the next inference writes into one while the last is
      sent from the other. They stay all the time too, because neighbours are at other inferences.
      Tensors of a queue have its buffers instead, which are where those of its first would be.
      Inputs of a chip that streams weights may have one among the activations.
    - Other activations live from the kernel that writes them to the last that reads them, and lie
      above all that stays.

    Args:
        flow: tensors of the chip.
        transfers: all transfers of the package.
        spec: the chip.
        activations: their lives, and their addresses from 0.
        stream: weights that come from off-package memory, if any do.
        queues: buffers that several tensors share.
    """
    end = max(len(flow.kernels) - 1, 0)
    storage = spec.storage
    streamed = frozenset(stream.weights if stream else ())
    stays: list[tuple[str, BufferKind, int]] = [
        (value.name or "", "weight", buffer_bytes(spec, storage.value_bytes(value)))
        for value in flow.weights
        if value not in streamed
    ]
    if stream and not stream.turns:
        stays += _slots("stream", "stream", stream.buffer_bytes, stream.buffers)
    for state in flow.states:
        size = state_buffer_bytes(spec, state) * state.buffers
        stays.append((state.past.name or "", "state", size))
    shared = {
        (queue.kind, index): queue.buffers if place == 0 else 0
        for queue in queues
        for place, sent in enumerate(queue.tensors)
        for index in sent
    }
    turns = stream.inputs if stream else {}
    for index in flow.arriving.values():
        transfer = transfers[index]
        size = buffer_bytes(spec, transfer.size_bytes)
        slots = 0 if index in turns else shared.get(("receive", index), transfer.slots)
        stays += _slots(transfer.tensor, "receive", size, slots)
    for value, sent in flow.leaving.items():
        if value in flow.writer:
            size = buffer_bytes(spec, storage.value_bytes(value))
            slots = max(shared.get(("send", index), transfers[index].slots) for index in sent)
            stays += _slots(value.name or "", "send", size, slots)
    buffers: list[Buffer] = []
    bytes_of: dict[BufferKind, int] = {"activation": activations.high_water_bytes}
    top = 0
    for name, kind, size in stays:
        if size > 0:
            buffers.append(Buffer(name, kind, top, size, 0, end))
            bytes_of[kind] = bytes_of.get(kind, 0) + size
            top += size
    buffers += [
        Buffer(value.name or "", "activation", top + offset, size, first, last)
        for value, offset, size, first, last in zip(
            activations.values,
            activations.offset.tolist(),
            activations.size.tolist(),
            activations.first.tolist(),
            activations.last.tolist(),
            strict=True,
        )
        if size > 0
    ]
    named = [(f"stream[{at}]", turn) for at, turn in enumerate(stream.turns if stream else ())]
    named += [(transfers[index].tensor, turn) for index, turn in turns.items()]
    buffers += [
        Buffer(name, "stream", top + turn.offset, turn.size_bytes, turn.first, turn.last)
        for name, turn in named
    ]
    return MemoryPlan(tuple(buffers), top + activations.high_water_bytes, bytes_of, queues)


def _slots(
    name: str, kind: BufferKind, size_bytes: int, slots: int
) -> list[tuple[str, BufferKind, int]]:
    return [(f"{name}[{slot}]", kind, size_bytes) for slot in range(slots)]


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
