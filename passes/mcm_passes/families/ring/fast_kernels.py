"""The compiled inner loop of the fast model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.lean_kernels import lean_njit
from mcm_compiler.partition import Bools, Floats, Ints, Longs
from mcm_compiler.ring_routes import (
    CLONED,
    EVERYWHERE,
    FROM_HOST,
    TO_HOST,
)
from mcm_passes.families.ring.loads.ring_kernels import HELD, HOST_IN, count_host, count_tensor
from mcm_passes.mapping.loads.problem_arrays import (
    ProblemArrays,
    clone_copies,
    count_weights,
    needed_live_bytes,
    peak_live_bytes,
)
from mcm_passes.mapping.loads.tensor_columns import ENTERED, MADE, RECEIVED


@lean_njit
def _count_tensors(
    p: ProblemArrays,
    chip_of: Ints,
    last_used: int,
    copies: Bools,
    stamp: Longs,
    busy: Floats,
    totals: Longs,
    leaves: Bools,
) -> None:
    """Counts all tensors, and marks those that leave the chip that makes them.

    `stamp[C]` holds -1.
    """
    for t in range(p.kind.size):
        kind = p.kind[t]
        if kind & CLONED:
            row = p.clone_row[p.tensor_producer[t]]
            for c in range(p.num_chips):
                if copies[row, c]:
                    totals[HELD, c] += p.amount[t, MADE]
            continue
        source = 0 if kind & FROM_HOST else int(chip_of[p.tensor_producer[t]])
        if kind & FROM_HOST and p.reader_ptr[t] == p.reader_ptr[t + 1]:
            continue
        if kind & EVERYWHERE:
            for e in range(p.reader_ptr[t], p.reader_ptr[t + 1]):
                c = chip_of[p.readers[e]]
                if stamp[c] != t:
                    stamp[c] = t
                    totals[HOST_IN, c] += p.amount[t, ENTERED]
                    totals[HELD, c] += p.amount[t, RECEIVED]
            continue
        if kind & (FROM_HOST | TO_HOST):
            count_host(p.kind, p.amount, t, source, last_used, 1, totals)
        leaves[t] = (kind & TO_HOST) > 0
        leaves[t] |= count_tensor(
            p.kind,
            p.amount,
            p.passed_s,
            t,
            p.reader_ptr,
            p.readers,
            chip_of,
            source,
            last_used,
            1,
            busy,
            totals,
            stamp,
            t,
        )


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
    num_units = p.compute_s.size
    num_chips = p.num_chips
    copies = clone_copies(p, chip_of)
    busy = np.zeros(num_chips)
    totals = np.zeros((4, num_chips), dtype=np.int64)
    weights = np.zeros(num_chips, dtype=np.int64)
    largest = np.zeros(num_chips, dtype=np.int64)
    last_used = 0
    for u in range(num_units):
        row = p.clone_row[u]
        if row >= 0:
            for c in range(num_chips):
                if copies[row, c]:
                    busy[c] += p.compute_s[u]
        else:
            busy[chip_of[u]] += p.compute_s[u]
            last_used = max(last_used, chip_of[u])

    leaves = np.zeros(p.kind.size, dtype=np.bool_)
    stamp = np.full(num_chips, -1, dtype=np.int64)
    _count_tensors(p, chip_of, last_used, copies, stamp, busy, totals, leaves)
    stamp[:] = -1
    count_weights(p, chip_of, stamp, weights, largest)
    peak = needed_live_bytes(p, chip_of) if p.need else peak_live_bytes(p, chip_of, leaves)
    return Measured(copies, busy, totals, weights, peak, largest)
