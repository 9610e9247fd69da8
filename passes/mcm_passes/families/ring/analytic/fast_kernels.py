"""The compiled inner loop of the fast model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.arrays.lean_kernels import lean_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_compiler.placements.ring_routes import CLONED, EVERYWHERE, FROM_HOST, TO_HOST
from mcm_passes.families.ring.loads.ring_kernels import (
    HELD,
    HOST_IN,
    Loads,
    Placed,
    count_host,
    count_tensor,
)
from mcm_passes.mapping.loads.problem_arrays import (
    ProblemArrays,
    count_copies,
    live_bytes,
    own_loads,
)
from mcm_passes.mapping.loads.tensor_columns import ENTERED, RECEIVED


@lean_njit
def _count_tensors(
    p: ProblemArrays, placed: Placed, copies: Bools, stamp: Longs, loads: Loads, leaves: Bools
) -> None:
    """Counts all tensors, and marks those that leave the chip that makes them.

    `stamp[C]` holds -1.
    """
    columns, readers, chip_of = p.columns, p.readers, placed.chip_of
    for t in range(columns.kind.size):
        kind = columns.kind[t]
        if kind & CLONED:
            count_copies(p, t, copies, loads.totals[HELD])
            continue
        if kind & FROM_HOST and readers.ptr[t] == readers.ptr[t + 1]:
            continue
        if kind & EVERYWHERE:
            # The host sends it to every chip that reads it.
            for e in range(readers.ptr[t], readers.ptr[t + 1]):
                c = chip_of[readers.entries[e]]
                if stamp[c] != t:
                    stamp[c] = t
                    loads.totals[HOST_IN, c] += columns.amount[t, ENTERED]
                    loads.totals[HELD, c] += columns.amount[t, RECEIVED]
            continue
        source = 0 if kind & FROM_HOST else int(chip_of[p.tensor_producer[t]])
        if kind & (FROM_HOST | TO_HOST):
            count_host(columns, t, source, placed.last_used, 1, loads.totals)
        leaves[t] = (kind & TO_HOST) > 0
        leaves[t] |= count_tensor(columns, t, readers, placed, source, loads, stamp)


class Measured(NamedTuple):
    """Loads of all resources.

    Attributes:
        copies: `[K, C]`, the chips that hold a copy of each clonable unit.
        busy_s: `[C]`, at speed 1.
        totals: `[4, C]`, rows of `ring_kernels`: bytes of links (the last is 0) and of host
            channels, and bytes of buffers that are taken for good.
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


@njit(cache=True)
def measure(p: ProblemArrays, chip_of: Ints) -> Measured:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range."""
    own = own_loads(p, chip_of)
    loads = Loads(own.busy_s, np.zeros((4, p.num_chips), np.int64))
    last_used = 0
    for u in range(chip_of.size):
        if p.clone_row[u] < 0:
            last_used = max(last_used, chip_of[u])
    leaves = np.zeros(p.live.size, np.bool_)
    stamp = np.full(p.num_chips, -1, np.int64)
    _count_tensors(p, Placed(chip_of, last_used), own.copies, stamp, loads, leaves)
    peak = live_bytes(p, chip_of, leaves)
    return Measured(own.copies, own.busy_s, loads.totals, own.weights, peak, own.largest)
