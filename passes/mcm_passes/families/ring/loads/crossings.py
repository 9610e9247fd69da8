"""What crosses order ideals: the tensors that one chip hands over to the next.

An ideal is a set of nodes that holds with each all that it depends on, such as the nodes before a
cut of an order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_compiler.placements.ring_routes import COLLECTED
from mcm_passes.families.ring.loads.chip_demands import TensorDemands
from mcm_passes.mapping.loads.tensor_columns import CROSSED
from mcm_passes.mapping.problem.rule_graph import Words


class IdealCrossings(NamedTuple):
    """What crosses each of I ideals.

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


def cuts_of(members: Words, tensors: TensorDemands) -> IdealCrossings:
    """What crosses each ideal, from the empty one to that of all nodes.

    Args:
        members: `[I, words]`, bitsets of their nodes.
        tensors: of these nodes.
    """
    crossing = Rows(*_crossing(members, tensors))
    crossing_bytes = np.zeros(len(members), np.int64)
    np.add.at(crossing_bytes, crossing.owners, tensors.amount[crossing.entries, CROSSED])
    return IdealCrossings(members, crossing.ptr, crossing.entries.astype(np.int32), crossing_bytes)


@inlined_njit
def holds(members: Words, ideal: int, node: int) -> bool:
    """Whether an ideal has a node."""
    return bool(members[ideal, node >> 6] >> np.uint64(node & 63) & np.uint64(1))


@inlined_njit
def read_beyond(members: Words, ideal: int, readers: Rows, tensor: int) -> bool:
    """Whether a tensor has a reader that an ideal lacks."""
    for e in range(readers.ptr[tensor], readers.ptr[tensor + 1]):
        if not holds(members, ideal, readers.entries[e]):
            return True
    return False


@entry_njit
def _crossing(members: Words, d: TensorDemands) -> tuple[Longs, Longs]:
    """CSR of the tensors that cross each ideal."""
    count = members.shape[0]
    ptr = np.zeros(count + 1, np.int64)
    tensors = np.empty(1024, np.int64)
    found = 0
    # The empty ideal is where the package begins and the full one where it ends: no link.
    for i in range(1, count - 1):
        ptr[i] = found
        for t in range(d.producer.size):
            made = d.producer[t] < 0 or holds(members, i, d.producer[t])
            if made and (d.kind[t] & COLLECTED or read_beyond(members, i, d.readers, t)):
                if found == tensors.size:
                    # In a loop, as slices of arrays take seconds to compile.
                    grown = np.empty(2 * found, np.int64)
                    for k in range(found):
                        grown[k] = tensors[k]
                    tensors = grown
                tensors[found] = t
                found += 1
    ptr[max(count - 1, 0) :] = found
    return ptr, tensors[:found].copy()
