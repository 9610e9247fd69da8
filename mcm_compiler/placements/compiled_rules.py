"""The rules and routes of the ring as compiled code for inner loops.

`ring_rules` is the authority, and says which rule and why; property tests hold the two together.
Only search and batch evaluation import this module, as compiled code takes long to load.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit
from mcm_compiler.contracts.partition import Bools, Ints, Longs


@entry_njit
def breaks_rule(
    clone_row: Ints,
    pinned_chip: Ints,
    edge_source: Ints,
    edge_target: Ints,
    chip_of: Ints,
    num_chips: int,
    strict: bool,
) -> bool:
    """Return whether `chip_of[N]` breaks a rule; its entries for clonable units are not looked at.

    The rules are those of MCM, Eq. 2 to 4, and the user's pins of units with a place of their own.
    Memory (Eq. 5) is not among them.

    Args:
        clone_row: `[N]`, -1 for all units that are not clonable.
        pinned_chip: `[N]`, as in `PartitionProblem`.
        edge_source: `[E]`, unit that is read, see `dependency_edges`.
        edge_target: `[E]`, unit that reads.
        chip_of: `[N]`, any numbers.
        num_chips: chips on the ring.
        strict: whether the triangle rule holds.
    """
    used = np.zeros(num_chips, np.bool_)
    highest = 0
    for unit in range(len(chip_of)):
        if clone_row[unit] >= 0:
            continue
        chip = chip_of[unit]
        if chip < 0 or chip >= num_chips:
            return True
        if pinned_chip[unit] >= 0 and pinned_chip[unit] != chip:
            return True
        used[chip] = True
        highest = max(highest, chip)
    for edge in range(len(edge_source)):
        if chip_of[edge_source[edge]] > chip_of[edge_target[edge]]:
            return True
    # Copies need no look: each is on a chip with a unit that needs it.
    if not used[:highest].all():
        return True
    if not strict:
        return False
    direct = np.zeros((highest + 1, highest + 1), np.bool_)
    for edge in range(len(edge_source)):
        direct[chip_of[edge_source[edge]], chip_of[edge_target[edge]]] = True
    return has_detours(direct, highest + 1, np.empty_like(direct))


@inlined_njit
def has_detours(direct: Bools | Longs, num_chips: int, longer: Bools) -> bool:
    """Return whether some direct dependency between chips has a longer parallel path (MCM, Eq. 4).

    Dependencies go to higher chips only, so one sweep from the last chip down finds all paths.

    Args:
        direct: `[C, C]`, more than 0 where a chip reads from another, at `[source, target]`.
        num_chips: chips in use, the first ones.
        longer: `[C, C]`, space.
    """
    longer[:] = False
    for a in range(num_chips - 1, -1, -1):
        for b in range(a + 1, num_chips):
            if direct[a, b] > 0:
                # All chips between have been looked at, so that longer paths to this one are known.
                if longer[a, b]:
                    return True
                for c in range(b + 1, num_chips):
                    longer[a, c] |= direct[b, c] > 0 or longer[b, c]
    return False


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
