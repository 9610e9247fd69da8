"""Crossings of order ideals: the tensors that one chip hands over to the next.

An ideal is a set of nodes that holds with each all that it depends on, such as the nodes before a
cut of an order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.mapping.loads.chip_demands import CROSSED, TensorDemands
from mcm_passes.mapping.problem.rule_graph import Words


class IdealCrossings(NamedTuple):
    """Tensors that cross each of I ideals.

    Attributes:
        members: `[I, words]`, bitset of each ideal.
        crossing_ptr: `[I + 1]`, CSR of the tensors that cross: made within, needed beyond.
        crossing: those tensors.
        crossing_bytes: `[I]`.
    """

    members: Words
    crossing_ptr: Longs
    crossing: Ints
    crossing_bytes: Longs


def cuts_of(members: Words, tensors: TensorDemands, smaller: Longs | None = None) -> IdealCrossings:
    """Tensors that cross each ideal, from the empty one to that of all nodes.

    Takes about as long as there are crossings, whatever tensors do not cross.

    Args:
        members: `[I, words]`, bitsets of their nodes.
        tensors: of these nodes.
        smaller: `[I]`, of each ideal but the first one that stands before it, and all of whose
            nodes it has; None where that is the very one before it.
    """
    if smaller is None:
        smaller = np.arange(-1, len(members) - 1)
    maker = tensors.producer.astype(np.int64)
    made = Rows(np.arange(maker.size + 1), maker).transposed(64 * members.shape[1])
    crossing = Rows(*_crossing(members, smaller, made, tensors))
    crossing_bytes = np.zeros(len(members), np.int64)
    np.add.at(crossing_bytes, crossing.owners, tensors.amount[crossing.entries, CROSSED])
    return IdealCrossings(members, crossing.ptr, crossing.entries.astype(np.int32), crossing_bytes)


@inlined_njit
def holds(members: Words, ideal: int, node: int) -> bool:
    """Return whether an ideal has a node."""
    return bool(members[ideal, node >> 6] >> np.uint64(node & 63) & np.uint64(1))


@inlined_njit
def read_beyond(members: Words, ideal: int, readers: Rows, tensor: int) -> bool:
    """Return whether a tensor has a reader that an ideal lacks."""
    for e in range(readers.ptr[tensor], readers.ptr[tensor + 1]):
        if not holds(members, ideal, readers.entries[e]):
            return True
    return False


@entry_njit
def _crossing(members: Words, smaller: Longs, made: Rows, d: TensorDemands) -> tuple[Longs, Longs]:
    """CSR of the tensors that cross each ideal, ascending.

    What crosses an ideal has crossed the smaller one, or is made by one of the nodes between.
    """
    count, words = members.shape
    ptr = np.zeros(count + 1, np.int64)
    tensors = np.empty(1024, np.int64)
    end = 0
    # The empty ideal is where the package begins and the full one where it ends: no link.
    for i in range(1, count - 1):
        ptr[i] = end
        before = smaller[i]
        most = end + ptr[before + 1] - ptr[before] + d.producer.size
        if most > tensors.size:
            # In a loop, as slices of arrays take seconds to compile.
            grown = np.empty(2 * most, np.int64)
            for k in range(end):
                grown[k] = tensors[k]
            tensors = grown
        for e in range(ptr[before], ptr[before + 1]):
            if read_beyond(members, i, d.readers, tensors[e]):
                tensors[end] = tensors[e]
                end += 1
        for w in range(words):
            new = members[i, w] & ~members[before, w]
            v = 64 * w
            while new:
                if new & np.uint64(1):
                    end = _enter_made(members, i, made, v, d, tensors, ptr[i], end)
                new >>= np.uint64(1)
                v += 1
    ptr[max(count - 1, 0) :] = end
    return ptr, tensors[:end].copy()


@lean_inner_njit
def _enter_made(
    members: Words,
    ideal: int,
    made: Rows,
    node: int,
    d: TensorDemands,
    tensors: Longs,
    begin: int,
    end: int,
) -> int:
    """Enters what a node makes and what crosses the ideal into its ascending row; the new end."""
    for e in range(made.ptr[node], made.ptr[node + 1]):
        t = made.entries[e]
        if read_beyond(members, ideal, d.readers, t):
            k = end
            while k > begin and tensors[k - 1] > t:
                tensors[k] = tensors[k - 1]
                k -= 1
            tensors[k] = t
            end += 1
    return end
