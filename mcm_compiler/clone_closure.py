"""Who needs the copies of clonable units: the units with a place of their own behind each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mcm_compiler.rows import Entries, Rows, distinct_rows, starts

if TYPE_CHECKING:
    from mcm_compiler.partition import PartitionProblem


def clone_closure(problem: PartitionProblem) -> Rows:
    """`[N]` rows: for each unit the units whose chips hold it.

    A unit with a place of its own is held by its own chip. A clonable unit is held by each chip
    with a unit that reads it, through other clonable units or not. Rows ascend.
    """
    fixed = ~problem.clonable
    readers: dict[int, list[npt.NDArray[np.int32]]] = {
        u: [] for u in np.flatnonzero(problem.clonable).tolist()
    }
    made = np.flatnonzero(problem.tensor_producer >= 0)
    for t in made[problem.clonable[problem.tensor_producer[made]]].tolist():
        row = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        readers[int(problem.tensor_producer[t])].append(row)
    behind: dict[int, npt.NDArray[np.int64]] = {}
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
