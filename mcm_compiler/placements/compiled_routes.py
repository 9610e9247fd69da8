"""Where units and tensors get to on the ring, as compiled code for inner loops.

Only search and batch evaluation import this module, as compiled code takes long to load.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit
from mcm_compiler.contracts.partition import Bools, Ints, Longs


@inlined_njit
def last_reader(reader_ptr: Longs, readers: Longs, t: int, chip_of: Ints) -> int:
    """The last chip with a reader of a tensor, or -1.

    Args:
        reader_ptr: `[T + 1]`, CSR of the units that read each tensor.
        readers: those units.
        t: the tensor.
        chip_of: `[N]`.
    """
    last = -1
    for e in range(reader_ptr[t], reader_ptr[t + 1]):
        last = max(last, int(chip_of[readers[e]]))
    return last


@inlined_njit
def last_used(clone_row: Ints, chip_of: Ints) -> int:
    """The last chip with a unit, or -1; copies are on chips with a unit that needs them.

    Args:
        clone_row: `[N]`, -1 for all units that are not clonable.
        chip_of: `[N]`; entries of clonable units are not looked at.
    """
    last = -1
    for unit in range(len(chip_of)):
        if clone_row[unit] < 0:
            last = max(last, int(chip_of[unit]))
    return last


@entry_njit
def copies_of(
    clone_row: Ints, user_ptr: Longs, users: Longs, chip_of: Ints, num_chips: int
) -> Bools:
    """`[K, C]`, the chips that hold a copy of each clonable unit.

    Args:
        clone_row: `[N]`, counts clonable units from 0; -1 for all others.
        user_ptr: `[N + 1]`, CSR of the units behind each unit, see `clone_closure`.
        users: those units.
        chip_of: `[N]`.
        num_chips: C.
    """
    num_clonable = 0
    for unit in range(len(clone_row)):
        num_clonable += clone_row[unit] >= 0
    copies = np.zeros((num_clonable, num_chips), np.bool_)
    for unit in range(len(chip_of) if num_clonable > 0 else 0):
        row = clone_row[unit]
        if row >= 0:
            for e in range(user_ptr[unit], user_ptr[unit + 1]):
                copies[row, chip_of[users[e]]] = True
    return copies
