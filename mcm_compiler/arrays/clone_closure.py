"""Owners of copies of clonable units: the units with a place of their own behind each."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.rows import Entries, Rows, distinct_rows, starts
from mcm_compiler.arrays.types import Bools, Ints, Longs


def clone_closure(
    clonable: Bools, tensor_producer: Ints, tensor_ptr: Longs, tensor_consumers: Ints
) -> Rows:
    """`[N]` rows: for each unit the units whose chips hold it.

    A unit with a place of its own is held by its own chip. A clonable unit is held by each chip
    with a unit that reads it, through other clonable units or not. Rows ascend.

    Args:
        clonable: `[N]`, as all of these are in `PartitionProblem`.
        tensor_producer: `[T]`.
        tensor_ptr: `[T + 1]`.
        tensor_consumers: units that read each tensor.
    """
    fixed = ~clonable
    readers: dict[int, list[Ints]] = {u: [] for u in np.flatnonzero(clonable).tolist()}
    made = np.flatnonzero(tensor_producer >= 0)
    for t in made[clonable[tensor_producer[made]]].tolist():
        row = tensor_consumers[tensor_ptr[t] : tensor_ptr[t + 1]]
        readers[int(tensor_producer[t])].append(row)
    behind: dict[int, Longs] = {}
    # Backwards, because a clone's readers may be clones themselves, and come after it.
    for u in sorted(readers, reverse=True):
        read_by = np.concatenate([np.zeros(0, np.int64), *readers[u]]).astype(np.int64)
        through = [behind[v] for v in read_by[~fixed[read_by]].tolist()]
        behind[u] = np.unique(np.concatenate([read_by[fixed[read_by]], *through]))
    counts = fixed.astype(np.int64)
    for u, units in behind.items():
        counts[u] = units.size
    ptr = starts(counts)
    entries = np.zeros(int(ptr[-1]), np.int64)
    entries[ptr[:-1][fixed]] = np.flatnonzero(fixed)
    for u, units in behind.items():
        entries[ptr[u] : ptr[u + 1]] = units
    ptr.setflags(write=False)
    entries.setflags(write=False)
    return Rows(ptr, entries)


def placed_users(closure: Rows, ptr: Entries, users: Entries) -> Rows:
    """Rows of units with each clonable one replaced by those that need it.

    Args:
        closure: `PartitionProblem.clone_closure`.
        ptr: `[R + 1]`, where rows start, such as those of tensors or weights.
        users: the units of each row.

    Returns:
        R rows, ascending, each unit once.
    """
    owner = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    through = closure.chosen(users)
    return distinct_rows(owner[through.owners], through.entries, ptr.size - 1)
