"""The streamed weights of one chip: their transfers, and the kernels that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.program import Transfer
from mcm_compiler.contracts.target import OFF_PACKAGE
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import STREAM_BUFFERS, ChipSpec
from mcm_hardware.memory.activation_plan import ActivationPlan, buffer_bytes
from mcm_hardware.memory.offset_assignment import plan_offsets
from mcm_hardware.memory.weight_streaming import choose_streamed


class Turn(NamedTuple):
    """The stream buffer of one kernel that lies among the activations.

    Attributes:
        offset: bytes from where activations begin.
        size_bytes: its length.
        first: kernel from whose start the buffer is taken.
        last: kernel after whose end it is free.
    """

    offset: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class WeightStream:
    """The weights of a chip that come from off-package memory in every inference.

    Attributes:
        weights: which.
        buffers: stream buffers; with turns, kernels whose weights are on the chip at once.
        buffer_bytes: bytes of each; 0 with turns.
        streamed_bytes: bytes per inference.
        read_by: weights that each kernel reads from its stream buffer, kernels ascending.
        turns: a buffer for each of these kernels that lies among the activations; none where all
            kernels share `buffers`.
    """

    weights: tuple[ir.Value, ...]
    buffers: int
    buffer_bytes: int
    streamed_bytes: int
    read_by: Mapping[int, tuple[ir.Value, ...]]
    turns: tuple[Turn, ...] = ()


class _Readers(NamedTuple):
    """Weights of a chip that may be streamed: not those that leave it, or that nobody reads."""

    weights: tuple[ir.Value, ...]
    users: list[tuple[int, ...]]
    sizes: list[int]

    def stream(
        self, chosen: Sequence[int], buffers: int, room: int, turns: tuple[Turn, ...] = ()
    ) -> WeightStream:
        read_by: dict[int, list[ir.Value]] = {}
        for index in chosen:
            for kernel in self.users[index]:
                read_by.setdefault(kernel, []).append(self.weights[index])
        return WeightStream(
            weights=tuple(self.weights[index] for index in chosen),
            buffers=buffers,
            buffer_bytes=room,
            streamed_bytes=sum(self.sizes[index] * len(self.users[index]) for index in chosen),
            read_by={kernel: tuple(read_by[kernel]) for kernel in sorted(read_by)},
            turns=turns,
        )


def _readers(flow: ChipDataflow, spec: ChipSpec) -> _Readers:
    users = [
        () if value in flow.leaving or value in flow.kept else flow.readers.get(value, ())
        for value in flow.weights
    ]
    return _Readers(flow.weights, users, [spec.storage.value_bytes(v) for v in flow.weights])


def plan_stream(flow: ChipDataflow, spec: ChipSpec, excess_bytes: int) -> WeightStream | None:
    """The weights to stream so that a chip fits.

    With two stream buffers where that suffices, so that the weights of the next kernel come while
    one runs; else with one.

    Args:
        flow: tensors of the chip, kernels in their final order.
        spec: the chip.
        excess_bytes: what the chip needs beyond what it has, with all weights resident.

    Returns:
        The plan, or None where the chip does not fit in this way either.
    """
    readers = _readers(flow, spec)
    for buffers in range(STREAM_BUFFERS, 0, -1):
        chosen, room = choose_streamed(
            np.array([buffer_bytes(spec, size) for size in readers.sizes], np.int64),
            np.array([0, *accumulate(map(len, readers.users))], np.int64),
            np.array([*chain.from_iterable(readers.users)], np.int64),
            len(flow.kernels),
            buffers,
            excess_bytes,
        )
        if streamed := np.flatnonzero(chosen).tolist():
            return readers.stream(streamed, buffers, int(room))
    return None


def plan_turns(
    flow: ChipDataflow, spec: ChipSpec, fixed_bytes: int, activations: ActivationPlan
) -> tuple[WeightStream, ActivationPlan] | None:
    """The weights to stream where fixed stream buffers leave no memory for activations.

    Each kernel's weights have a buffer among the activations, from the end of the kernel two turns
    before, or one where that takes too much, to its own end. Those of the first turns come in the
    inference before, and stay. As many weights as fit are resident, those with the most readers
    first.

    Args:
        flow: tensors of the chip, kernels in their final order.
        spec: the chip.
        fixed_bytes: all that is no weight and no activation.
        activations: as planned without streams.

    Returns:
        The plan, and that of the activations beside it; None where the chip does not fit.
    """
    readers = _readers(flow, spec)
    sizes = [buffer_bytes(spec, size) for size in readers.sizes]
    ranked = [w for w in range(len(sizes)) if readers.users[w]]
    ranked.sort(key=lambda w: (-len(readers.users[w]), sizes[w]))
    for buffers in range(STREAM_BUFFERS, 0, -1):
        best, low, high = None, 0, len(ranked)
        while low < high:
            resident = (low + high) // 2 if best else 0
            chosen = ranked[resident:]
            room = spec.sram_bytes - fixed_bytes - sum(sizes) + sum(sizes[w] for w in chosen)
            stream = readers.stream(chosen, buffers, 0)
            plan, turns = _with_turns(stream, spec, activations, len(flow.kernels))
            if plan.high_water_bytes <= room:
                best, low = (replace(stream, turns=turns), plan), resident + 1
            elif best is None:
                break
            else:
                high = resident
        if best is not None:
            return best
    return None


def _with_turns(
    stream: WeightStream, spec: ChipSpec, activations: ActivationPlan, num_kernels: int
) -> tuple[ActivationPlan, tuple[Turn, ...]]:
    kernels, count, ahead = [*stream.read_by], len(activations.values), stream.buffers
    size = [
        sum(buffer_bytes(spec, spec.storage.value_bytes(value)) for value in read)
        for read in stream.read_by.values()
    ]
    first = [0] * min(ahead, len(kernels)) + [kernel + 1 for kernel in kernels[:-ahead]]
    last = [num_kernels - 1] * min(ahead, len(kernels)) + kernels[ahead:]
    offset, high_water = plan_offsets(
        np.concatenate([activations.size, np.array(size, np.int64)]),
        np.concatenate([activations.first, np.array(first, np.int64)]),
        np.concatenate([activations.last, np.array(last, np.int64)]),
        0,
    )
    turns = map(Turn, offset[count:].tolist(), size, first, last)
    plan = replace(activations, offset=offset[:count], high_water_bytes=int(high_water))
    return plan, tuple(turns)


def stream_transfers(
    stream: WeightStream, chip: int, spec: ChipSpec, next_index: int
) -> tuple[list[Transfer], dict[int, tuple[int, ...]]]:
    """The transfers of streamed weights.

    Each fills the stream buffer of the kernel that had the buffer before, which is in the
    inference before for the first ones.

    Args:
        stream: what to stream.
        chip: the chip.
        spec: its numbers.
        next_index: index that the first transfer gets in the program.

    Returns:
        The transfers, and the indices that each kernel reads.
    """
    reads: dict[int, tuple[int, ...]] = {}
    for kernel, weights in stream.read_by.items():
        reads[kernel] = tuple(range(next_index, next_index + len(weights)))
        next_index += len(weights)
    kernels = list(reads)
    transfers = [
        Transfer(
            tensor=weight.name or "",
            source=OFF_PACKAGE,
            destination=chip,
            size_bytes=spec.storage.value_bytes(weight),
            slots=1,
            reuses=reads[kernels[turn - stream.buffers]][0],
        )
        for turn, kernel in enumerate(kernels)
        for weight in stream.read_by[kernel]
    ]
    return transfers, reads
