"""The most that is live at once, unit by unit."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows
from mcm_passes.mapping.loads.device_memory import end_unit, hold, live_peaks


@entry_njit
def _run(chip_of, maker, readers, amount, peaks):
    for unit in range(chip_of.size):
        for t in range(maker.size):
            if maker[t] == unit:
                hold(peaks, chip_of[unit], unit, readers, t, amount[t])
        end_unit(peaks, chip_of[unit], unit)


def test_a_tensor_is_live_from_its_maker_to_its_last_reader():
    # On chip 0 units 0, 1 and 3; tensors 0 and 1 are live together, 2 has no reader.
    readers = Rows(np.array([0, 2, 3, 3, 4], np.int64), np.array([1, 3, 3, 4], np.int64))
    chip_of = np.array([0, 0, 1, 0, 1], np.int64)
    maker, amount = np.array([0, 1, 3, 2], np.int64), np.array([5, 7, 11, 13], np.int64)
    peaks = live_peaks(5, 2)
    _run(chip_of, maker, readers, amount, peaks)
    # While unit 3 runs, its own tensor is there beside the two that it reads for the last time.
    assert peaks.most.tolist() == [5 + 7 + 11, 13]
    assert not peaks.live.any()
    assert not peaks.ends_at.any()
