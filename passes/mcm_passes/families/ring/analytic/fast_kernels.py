"""The compiled inner loop of the fast model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_compiler.placements.compiled_rules import last_reader
from mcm_compiler.placements.ring_rules import CLONED, FROM_HOST, HOST, TO_HOST
from mcm_passes.families.ring.loads.ring_kernels import (
    HELD,
    Loads,
    Marks,
    Way,
    count_received,
    count_tensor,
)
from mcm_passes.mapping.loads.problem_arrays import (
    ProblemArrays,
    count_copies,
    live_bytes,
    own_loads,
)


@lean_inner_njit
def _count_tensors(
    p: ProblemArrays, chip_of: Ints, copies: Bools, stamp: Longs, loads: Loads, leaves: Bools
) -> None:
    """Counts all tensors, and marks those that leave the chip that makes them.

    `stamp[C]` holds -1.
    """
    columns, readers = p.columns, p.readers
    for t in range(columns.kind.size):
        kind = columns.kind[t]
        if kind & CLONED:
            count_copies(p, t, copies, loads.totals[HELD])
            continue
        source, last, arrives = HOST, -1, True
        if not kind & FROM_HOST:
            source = int(chip_of[p.tensor_producer[t]])
            last = last_reader(readers.ptr, readers.entries, t, chip_of)
            leaves[t] = (kind & TO_HOST) > 0 or last > source
        way = Way(source, last, p.last_chip)
        if source != HOST:
            arrives = count_tensor(columns, t, way, 1, loads)
        if arrives:
            marks = Marks(stamp, t)
            count_received(columns, t, readers, chip_of, way, 1, loads.totals, marks)


class Measured(NamedTuple):
    """Loads of all resources.

    Attributes:
        copies: `[K, C]`, the chips that hold a copy of each clonable unit.
        busy_s: `[C]`, at speed 1.
        totals: `[4, C]`, rows of `ring_kernels`: bytes of links, of host channels, and of buffers
            that are taken all the time.
        weights: `[C]`, bytes.
        peak: `[C]`, bytes of local activations in unit order, or at need of the hungriest kernel.
        largest: `[C]`, bytes of the largest weight.
    """

    copies: Bools
    busy_s: Floats
    totals: Longs
    weights: Longs
    peak: Longs
    largest: Longs


@entry_njit
def measure(p: ProblemArrays, chip_of: Ints) -> Measured:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range."""
    own = own_loads(p, chip_of)
    loads = Loads(own.busy_s, np.zeros((4, p.num_chips), np.int64))
    leaves = np.zeros(p.live.size, np.bool_)
    stamp = np.full(p.num_chips, -1, np.int64)
    _count_tensors(p, chip_of, own.copies, stamp, loads, leaves)
    peak = live_bytes(p, chip_of, leaves)
    return Measured(own.copies, own.busy_s, loads.totals, own.weights, peak, own.largest)
