"""Where units and tensors get to, as compiled code has it."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.placements.compiled_rules import copies_of, last_reader, last_used

CLONE_ROW = np.array([0, -1, -1, 1, -1], np.int32)
"""Units 0 and 3 are clonable."""

CHIP_OF = np.array([9, 0, 2, 9, 1], np.int32)
"""Those of clonable units are not looked at."""


@entry_njit
def _last_used(clone_row, chip_of):
    return last_used(clone_row, chip_of)


@entry_njit
def _last_reader(ptr, readers, t, chip_of):
    return last_reader(ptr, readers, t, chip_of)


def test_clonable_units_use_no_chip():
    assert _last_used(CLONE_ROW, CHIP_OF) == 2
    assert _last_used(np.zeros(5, np.int32), CHIP_OF) == -1


def test_the_last_reader_is_the_furthest_and_none_is_told():
    ptr, readers = np.array([0, 2, 2], np.int64), np.array([4, 2], np.int64)
    assert _last_reader(ptr, readers, 0, CHIP_OF) == 2
    assert _last_reader(ptr, readers, 1, CHIP_OF) == -1


def test_copies_are_on_the_chips_of_those_who_need_them():
    # Unit 0 is needed by 1 and 4, unit 3 by 2; others hold themselves.
    ptr, users = np.array([0, 2, 3, 4, 5, 6], np.int64), np.array([1, 4, 1, 2, 2, 4], np.int64)
    copies = copies_of(CLONE_ROW, ptr, users, CHIP_OF, 3)
    assert copies.tolist() == [[True, True, False], [False, False, True]]
