"""The most that is live at once on chips whose units run in their order, as compiled code.

What is made and read on one chip is live from its maker to its last reader. Whoever looks for the
peak goes through the units in their order: `hold` for all that a unit makes and that stays, then
`end_unit`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Longs


class LivePeaks(NamedTuple):
    """What is live while units run one after the other.

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
    """Room for a problem of that size."""
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
