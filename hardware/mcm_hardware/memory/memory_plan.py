"""The memory plan of one chip: a buffer with an address for everything that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcm_compiler.contracts.program import Buffer, BufferKind, Queue, Transfer
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.memory.activation_plan import ActivationPlan, buffer_bytes, state_buffer_bytes
from mcm_hardware.memory.stream_plan import WeightStream


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
