"""The streamed weights of one chip: their transfers, and the kernels that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.program import Transfer
from mcm_compiler.contracts.target import OFF_PACKAGE
from mcm_hardware.chip.chip_dataflow import ChipDataflow
from mcm_hardware.chip.chip_spec import STREAM_BUFFERS, ChipSpec
from mcm_hardware.memory.activation_plan import buffer_bytes
from mcm_hardware.memory.weight_streaming import choose_streamed


@dataclass(frozen=True)
class WeightStream:
    """The weights of a chip that come from off-package memory in every inference.

    Attributes:
        weights: which.
        buffers: stream buffers.
        buffer_bytes: bytes of each.
        streamed_bytes: bytes per inference.
        read_by: weights that each kernel reads from its stream buffer, kernels ascending.
    """

    weights: tuple[ir.Value, ...]
    buffers: int
    buffer_bytes: int
    streamed_bytes: int
    read_by: Mapping[int, tuple[ir.Value, ...]]


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
    weights = flow.weights
    users = [
        () if value in flow.leaving or value in flow.kept else flow.readers.get(value, ())
        for value in weights
    ]
    sizes = [spec.storage.value_bytes(value) for value in weights]
    for buffers in range(STREAM_BUFFERS, 0, -1):
        chosen, room = choose_streamed(
            np.array([buffer_bytes(spec, size) for size in sizes], np.int64),
            np.array([0, *accumulate(map(len, users))], np.int64),
            np.array([*chain.from_iterable(users)], np.int64),
            len(flow.kernels),
            buffers,
            excess_bytes,
        )
        streamed = np.flatnonzero(chosen).tolist()
        if streamed:
            read_by: dict[int, list[ir.Value]] = {}
            for index in streamed:
                for kernel in users[index]:
                    read_by.setdefault(kernel, []).append(weights[index])
            return WeightStream(
                weights=tuple(weights[index] for index in streamed),
                buffers=buffers,
                buffer_bytes=int(room),
                streamed_bytes=sum(sizes[index] * len(users[index]) for index in streamed),
                read_by={kernel: tuple(read_by[kernel]) for kernel in sorted(read_by)},
            )
    return None


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
