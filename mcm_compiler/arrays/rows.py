"""Rows of varying length in two flat arrays (CSR), and what is done with them everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.types import Bools, Ints, Longs

Entries = npt.NDArray[np.integer]


class Rows(NamedTuple):
    """R rows of numbers; row i is `entries[ptr[i]:ptr[i + 1]]`.

    Attributes:
        ptr: `[R + 1]`, from 0 on, never falling.
        entries: of all rows, one row after the other.
    """

    ptr: npt.NDArray[np.int64]
    entries: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """R."""
        return self.ptr.size - 1

    def row(self, index: int) -> npt.NDArray[np.int64]:
        """The entries of one row."""
        return self.entries[self.ptr[index] : self.ptr[index + 1]]

    @property
    def owners(self) -> npt.NDArray[np.int64]:
        """As long as `entries`, the row of each."""
        return np.repeat(np.arange(self.size), np.diff(self.ptr))

    def chosen(self, which: Entries) -> Rows:
        """Some of the rows, in the order given."""
        counts = np.diff(self.ptr)[which]
        ptr = starts(counts)
        places = np.arange(int(ptr[-1])) + np.repeat(self.ptr[:-1][which] - ptr[:-1], counts)
        return Rows(ptr, self.entries[places])

    def transposed(self, count: int) -> Rows:
        """`count` rows: for each entry, all of which are below that, the rows that it is in."""
        return grouped_rows(self.entries, self.owners, count)

    def renamed(self, name_of: npt.NDArray[np.int64]) -> Rows:
        """The same rows with other names for their entries, ascending."""
        entries, owners = name_of[self.entries], self.owners
        rising = (entries[1:] > entries[:-1]) | (owners[1:] != owners[:-1])
        if not rising.all():
            width = name_of.size
            entries = np.sort(owners * width + entries) % width
        return Rows(self.ptr, entries)


def starts(counts: Entries) -> npt.NDArray[np.int64]:
    """`[R + 1]`, where rows with these numbers of entries start."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def rows_of(lists: Sequence[Sequence[int]]) -> Rows:
    """Rows of the entries that lists have, in their order."""
    entries = [entry for row in lists for entry in row]
    return Rows(
        starts(np.array([len(row) for row in lists], np.int64)), np.array(entries, np.int64)
    )


def grouped_rows(owner: Entries, entry: Entries, count: int) -> Rows:
    """Rows from pairs of a row and an entry; those of a row stay in their order.

    Args:
        owner: row of each pair, below `count`.
        entry: its entry.
        count: R.
    """
    order = np.argsort(owner, kind="stable")
    return Rows(starts(np.bincount(owner, minlength=count)), entry[order].astype(np.int64))


def distinct_rows(owner: Entries, entry: Entries, count: int) -> Rows:
    """Rows from pairs of a row and an entry; each row ascends, and has an entry once.

    Args:
        owner: row of each pair, below `count`.
        entry: its entry, at least 0.
        count: R.
    """
    width = max(int(entry.max(initial=0)) + 1, 1)
    pairs = owner.astype(np.int64) * width + entry
    # Most pairs come in order, which takes a fraction of sorting them to find out.
    if not (pairs[1:] > pairs[:-1]).all():
        pairs = np.unique(pairs)
    return Rows(starts(np.bincount(pairs // width, minlength=count)), pairs % width)


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
    alone, sizes = np.flatnonzero(fixed), np.array([row.size for row in behind.values()], np.int64)
    owners = np.concatenate([alone, np.repeat(np.array(list(behind), np.int64), sizes)])
    found = grouped_rows(owners, np.concatenate([alone, *behind.values()]), clonable.size)
    found.ptr.setflags(write=False)
    found.entries.setflags(write=False)
    return found


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
