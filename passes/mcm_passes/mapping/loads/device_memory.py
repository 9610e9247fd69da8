"""From what is held on devices to the memory that they need and the weights that they stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Longs, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import aligned


class LivePeaks(NamedTuple):
    """Live bytes while units run one after the other.

    Attributes:
        live: `[C]`, on each chip by now; 0 at first.
        most: `[C]`, the most by now; likewise.
        ends_at: `[N]`, what each unit is the last to read; 0 before and after.
    """

    live: Longs
    most: Longs
    ends_at: Longs


@entry_njit
def live_peaks(num_units: int, num_chips: int) -> LivePeaks:
    """Space for a problem of that size."""
    return LivePeaks(
        np.zeros(num_chips, np.int64), np.zeros(num_chips, np.int64), np.zeros(num_units, np.int64)
    )


@inlined_njit
def hold(peaks: LivePeaks, chip: int, unit: int, readers: Rows, t: int, amount: int) -> None:
    """A unit makes a tensor that stays on its chip.

    Args:
        peaks: changed in place.
        chip: the chip.
        unit: the unit.
        readers: `[T]` rows of those who read each tensor, ascending.
        t: the tensor.
        amount: what it takes.
    """
    end = unit
    if readers.ptr[t] < readers.ptr[t + 1]:
        end = readers.entries[readers.ptr[t + 1] - 1]
    peaks.live[chip] += amount
    peaks.ends_at[end] += amount


@inlined_njit
def end_unit(peaks: LivePeaks, chip: int, unit: int) -> None:
    """A unit has run."""
    peaks.most[chip] = max(peaks.most[chip], peaks.live[chip])
    peaks.live[chip] -= peaks.ends_at[unit]
    peaks.ends_at[unit] = 0


@inlined_njit
def streamed_weights(
    needed: int, weights: int, largest: int, sram: int, streams: bool, buffers: int
) -> int:
    """How much of its weights a chip reads from off-package memory for every inference.

    What is streamed passes through buffers that hold the largest weight each, so that as much more
    has to go. All in bytes, or all in blocks.

    Args:
        needed: memory for all that the chip holds, weights included.
        weights: the part of it that weights take.
        largest: the largest weight.
        sram: what the chip has.
        streams: whether weights may be streamed at all.
        buffers: that streamed weights pass through.

    Returns:
        0 where all fits, and -1 where nothing helps.
    """
    over = needed - sram
    if over <= 0:
        return 0
    streamed = over + buffers * largest
    return streamed if streams and streamed <= weights else -1


def device_memory(
    problem: PartitionProblem, held: Longs, weights: Longs, largest: Longs, peak: Longs
) -> tuple[Longs, Longs]:
    """Needs of devices; the part that does not fit is streamed as far as there are weights.

    Args:
        problem: its limits say what devices have, and what the peak takes in addition for gaps.
        held: `[C]`, bytes of buffers that are taken permanently.
        weights: `[C]`, bytes of all weights.
        largest: `[C]`, bytes of the largest weight.
        peak: `[C]`, most bytes that are live at once.

    Returns:
        `[C]` each: bytes that devices need, where weights are streamed with buffers in place of
        these; and bytes of weights that come from off-package memory for every inference.
    """
    limits = problem.limits
    packed = np.ceil(peak * limits.activation_packing).astype(np.int64)
    needed = weights + held + aligned(packed, limits.buffer_alignment_bytes)
    if not problem.streams:
        return needed, np.zeros_like(needed)
    over = needed - np.array(limits.sram_bytes, np.int64)
    # Streamed weights pass through buffers that hold the largest each.
    buffers = limits.stream_buffers * largest
    streamed = np.where(over > 0, np.minimum(over + buffers, weights), 0)
    return needed + np.where(over > 0, buffers - streamed, 0), streamed
