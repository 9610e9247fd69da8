"""A lowered program as plain arrays that compiled code reads.

The simulator makes them from a `LoweredProgram`; an evaluator of many partitions fills them
directly. Both then call the same functions, so that they agree by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import rows_of, starts
from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.program import LoweredProgram


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
        reuses: `[T]`.
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
        reuses=_longs([transfer.reuses for transfer in transfers]),
        sequences=program.sequences,
    )


def _longs(values: Sequence[int]) -> Longs:
    return np.array(values, np.int64)
