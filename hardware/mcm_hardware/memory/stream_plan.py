"""The streamed weights of one chip: their transfers, and the kernels that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.program import Transfer
from mcm_compiler.contracts.target import OFF_PACKAGE
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import STREAM_BUFFERS, ChipSpec
from mcm_hardware.memory.activation_plan import buffer_bytes
from mcm_hardware.memory.weight_streaming import choose_streamed


class Turn(NamedTuple):
    """The stream buffer of one kernel or of an input, among the activations.

    Attributes:
        offset: bytes from where activations begin.
        size_bytes: its length.
        first: kernel from whose start the buffer is taken.
        last: kernel after whose end it is free.
        freed_by: turn of weights from whose end on it is filled; if negative, counted from behind
            the last one of the inference before.
    """

    offset: int
    size_bytes: int
    first: int
    last: int
    freed_by: int


@dataclass(frozen=True)
class WeightStream:
    """The weights of a chip that come from off-package memory in every inference.

    Attributes:
        weights: which.
        streamed_bytes: bytes per inference.
        read_by: weights that each kernel reads from its stream buffer, kernels ascending.
        buffers: stream buffers that stay.
        buffer_bytes: bytes of each.
        turns: where none stays, the buffer of each kernel in `read_by`.
        inputs: buffers of inputs that lie among the activations too, by their transfers.
    """

    weights: tuple[ir.Value, ...]
    streamed_bytes: int
    read_by: Mapping[int, tuple[ir.Value, ...]]
    buffers: int = 0
    buffer_bytes: int = 0
    turns: tuple[Turn, ...] = ()
    inputs: Mapping[int, Turn] = field(default_factory=dict[int, Turn])


def may_stream(flow: ChipDataflow) -> list[tuple[int, ...]]:
    """Kernels that read each weight; none for those that leave the chip, and stay."""
    return [
        () if value in flow.leaving or value in flow.kept else flow.readers.get(value, ())
        for value in flow.weights
    ]


def stream_of(
    flow: ChipDataflow, spec: ChipSpec, users: Sequence[Sequence[int]], streamed: Sequence[int]
) -> WeightStream:
    """The weights of these indices as streamed ones, without buffers."""
    read_by: dict[int, list[ir.Value]] = {}
    for index in streamed:
        for kernel in users[index]:
            read_by.setdefault(kernel, []).append(flow.weights[index])
    return WeightStream(
        weights=tuple(flow.weights[index] for index in streamed),
        streamed_bytes=sum(
            spec.storage.value_bytes(flow.weights[index]) * len(users[index]) for index in streamed
        ),
        read_by={kernel: tuple(read_by[kernel]) for kernel in sorted(read_by)},
    )


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
    users = may_stream(flow)
    sizes = [spec.storage.value_bytes(value) for value in flow.weights]
    for buffers in range(STREAM_BUFFERS, 0, -1):
        chosen, room = choose_streamed(
            np.array([buffer_bytes(spec, size) for size in sizes], np.int64),
            np.array([0, *accumulate(map(len, users))], np.int64),
            np.array([*chain.from_iterable(users)], np.int64),
            len(flow.kernels),
            buffers,
            excess_bytes,
        )
        if streamed := np.flatnonzero(chosen).tolist():
            found = stream_of(flow, spec, users, streamed)
            return replace(found, buffers=buffers, buffer_bytes=int(room))
    return None


def stream_transfers(
    stream: WeightStream, chip: int, spec: ChipSpec, transfers: list[Transfer]
) -> dict[int, tuple[int, ...]]:
    """Adds the transfers of streamed weights.

    Each fills the stream buffer of the kernel that had the buffer before, which is in the
    inference before for the first ones. So do inputs that have such a buffer.

    Args:
        stream: what to stream.
        chip: the chip.
        spec: its numbers.
        transfers: all transfers of the package so far.

    Returns:
        The indices that each kernel reads.
    """
    reads: dict[int, tuple[int, ...]] = {}
    end = len(transfers)
    for kernel, weights in stream.read_by.items():
        reads[kernel] = tuple(range(end, end + len(weights)))
        end += len(weights)
    first = [read[0] for read in reads.values()]
    for turn, kernel in enumerate(reads):
        before = stream.turns[turn].freed_by if stream.turns else turn - stream.buffers
        for weight in stream.read_by[kernel]:
            name, size = weight.name or "", spec.storage.value_bytes(weight)
            transfers.append(Transfer(name, OFF_PACKAGE, chip, size, 1, reuses=first[before]))
    for index, turn in stream.inputs.items():
        freed_by, lag = first[turn.freed_by], int(turn.freed_by < 0)
        transfers[index] = replace(transfers[index], reuses=freed_by, lag=lag)
    return reads
