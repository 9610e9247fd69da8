"""A lowered program, and the channels and routes of its machine, as arrays for compiled code.

The simulator makes them from a `LoweredProgram`; an evaluator of many partitions fills them
directly. Both then call the same functions, so that they agree by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import expanded_njit
from mcm_compiler.arrays.rows import rows_of, starts
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine


class ProgramArrays(NamedTuple):
    """A program of P used chips, K kernels and T transfers.

    Nothing here is checked: compiled code indexes with it. Programs that come from elsewhere than
    our own lowering pass `program_check.check_program` first.

    Attributes:
        chip: `[P]`, used chips, ascending.
        kernel_ptr: `[P + 1]`, kernels of the p-th used chip, in execution order.
        kernel_s: `[K]`, durations, launches included.
        kernel_latency_s: `[K]`, from then until what they write is there.
        read_ptr: `[K + 1]`, CSR of `reads`.
        reads: transfers that a kernel waits for.
        write_ptr: `[K + 1]`, CSR of `writes`.
        writes: transfers that a kernel makes ready to send.
        source: `[T]`, as in `mcm_compiler.contracts.program.Transfer`, like the rest.
        destination: `[T]`.
        size_bytes: `[T]`.
        slots: `[T]`.
        after: `[T]`.
        reuses: `[T]`; where a queue has the buffer, the transfer that had it before.
        reuse_lag: `[T]`, how many inferences before, where `reuses` is not -1.
        sent_ptr: `[T + 1]`, CSR of `sent`.
        sent: where a queue has the send buffer, the transfers that leave it before.
        sent_lag: `[T]`, how many inferences before.
        sequences: as in `mcm_compiler.contracts.program.LoweredProgram`.
    """

    chip: Longs
    kernel_ptr: Longs
    kernel_s: Floats
    kernel_latency_s: Floats
    read_ptr: Longs
    reads: Longs
    write_ptr: Longs
    writes: Longs
    source: Longs
    destination: Longs
    size_bytes: Longs
    slots: Longs
    after: Longs
    reuses: Longs
    reuse_lag: Longs
    sent_ptr: Longs
    sent: Longs
    sent_lag: Longs
    sequences: int


def program_arrays(program: LoweredProgram) -> ProgramArrays:
    """The arrays of a program.

    Raises:
        OverflowError: for whole numbers beyond 64 bits; `check_program` refuses them.
    """
    kernels = [kernel for chip in program.chips for kernel in chip.kernels]
    read_ptr, reads = rows_of([kernel.reads for kernel in kernels])
    write_ptr, writes = rows_of([kernel.writes for kernel in kernels])
    transfers = program.transfers
    reuses = _longs([transfer.reuses for transfer in transfers])
    reuse_lag = _longs([t.lag if t.lag >= 0 else t.reuses >= i for i, t in enumerate(transfers)])
    sent: list[tuple[int, ...]] = [()] * len(transfers)
    sent_lag = np.zeros(len(transfers), np.int64)
    for queue in (queue for chip in program.chips for queue in chip.queues):
        count = len(queue.tensors)
        for place, taken in enumerate(queue.tensors):
            back, holder = divmod(place - queue.buffers, count)
            for transfer in taken:
                if queue.kind == "send":
                    sent[transfer], sent_lag[transfer] = queue.tensors[holder], -back
                else:
                    reuses[transfer], reuse_lag[transfer] = queue.tensors[holder][0], -back
    sent_ptr, sent_by = rows_of(sent)
    return ProgramArrays(
        chip=_longs([chip.chip for chip in program.chips]),
        kernel_ptr=starts(_longs([len(chip.kernels) for chip in program.chips])),
        kernel_s=np.array([kernel.duration_s for kernel in kernels], np.float64),
        kernel_latency_s=np.array([kernel.latency_s for kernel in kernels], np.float64),
        read_ptr=read_ptr,
        reads=reads,
        write_ptr=write_ptr,
        writes=writes,
        source=_longs([transfer.source for transfer in transfers]),
        destination=_longs([transfer.destination for transfer in transfers]),
        size_bytes=_longs([transfer.size_bytes for transfer in transfers]),
        slots=_longs([transfer.slots for transfer in transfers]),
        after=_longs([transfer.after for transfer in transfers]),
        reuses=reuses,
        reuse_lag=reuse_lag,
        sent_ptr=sent_ptr,
        sent=sent_by,
        sent_lag=sent_lag,
        sequences=program.sequences,
    )


def _longs(values: Sequence[int]) -> Longs:
    return np.array(values, np.int64)


class ChannelArrays(NamedTuple):
    """Resources of a machine of D devices that serve one activity at a time: `L + D`.

    Resource c below L is channel c; resource `L + d` is the compute engine of device d, which has
    neither rate nor latency.

    Attributes:
        num_devices: D.
        num_channels: L.
        bytes_per_s: `[L]`, rate of each channel.
        latency_s: `[L]`, delay of each channel.
        shared: `[L]`, whether the channel is one that all devices share.
        cuts: `[L]`, whether a tensor goes on to another such channel as soon as its head is there.
        router_buffers: as in `Machine`.
        route_begin: `[R]`, as in `mcm_compiler.machines.routes.Routes`, like the next two; rows
            as in `Machine.routes`.
        route_end: `[R]`.
        routes: channels of all routes.
    """

    num_devices: int
    num_channels: int
    bytes_per_s: Floats
    latency_s: Floats
    shared: Bools
    cuts: Bools
    router_buffers: bool
    route_begin: Ints
    route_end: Ints
    routes: Ints


def channel_arrays(machine: Machine) -> ChannelArrays:
    """The channels and routes of a machine, read-only, which is what code is compiled for."""
    routes = machine.routes
    shared = np.zeros(machine.num_channels, np.bool_)
    shared[list(machine.shared_channels)] = True
    return ChannelArrays(
        num_devices=machine.num_devices,
        num_channels=machine.num_channels,
        bytes_per_s=_frozen(machine.channel_bytes_per_s, np.float64),
        latency_s=_frozen(machine.channel_latency_s, np.float64),
        shared=_frozen(shared, np.bool_),
        cuts=_frozen(machine.channel_cuts, np.bool_),
        router_buffers=machine.router_buffers,
        route_begin=_frozen(routes.begin, np.int32),
        route_end=_frozen(routes.end, np.int32),
        routes=_frozen(routes.channels, np.int32),
    )


def _frozen(array: npt.NDArray[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """The array, or a copy where it is of another kind or layout."""
    same = np.ascontiguousarray(array, kind)
    same.setflags(write=False)
    return same


@expanded_njit
def row_of_route(source: int, destination: int, num_devices: int) -> int:
    """As `mcm_compiler.machines.machine.route_row`, without a check."""
    if source == HOST:
        return num_devices * num_devices + destination
    if source == OFF_PACKAGE:
        return num_devices * (num_devices + 2) + destination
    if destination == HOST:
        return num_devices * (num_devices + 1) + source
    return source * num_devices + destination
