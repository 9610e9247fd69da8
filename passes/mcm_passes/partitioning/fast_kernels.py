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
from mcm_passes.mapping.loads.ring_kernels import (
    ENTERED,
    HELD,
    HOST_IN,
    MADE,
    RECEIVED,
    count_host,
    count_tensor,
)


class ProblemArrays(NamedTuple):
    """A partition problem as the compiled code takes it.

    `clone_row[u]` counts the clonable units from 0 and is -1 for all others; the chips of
    `clone_users[clone_ptr[u]:clone_ptr[u + 1]]` hold unit u. `kind`, `amount` and `passed_s` are
    `TensorColumns`, and `live` is a column of it, once more for speed. Readers and users of weights
    are units with a place of their own, who want it themselves or for a copy.
    `unit_tensors[unit_ptr[u]:unit_ptr[u + 1]]` are the tensors that unit u makes. With `need`,
    memory is counted as `NeededRooms` has it, whose fields the last four are; else they are empty.
    """

    compute_s: Floats
    clone_row: Ints
    num_clonable: int
    clone_ptr: Longs
    clone_users: Longs
    kind: Longs
    amount: Longs
    passed_s: Floats
    live: Longs
    tensor_producer: Ints
    reader_ptr: Longs
    readers: Longs
    unit_ptr: Longs
    unit_tensors: Longs
    weight_room: Longs
    weight_ptr: Longs
    weight_users: Longs
    num_chips: int
    need: bool
    held_ptr: Longs
    held: Ints
    stay_ptr: Longs
    stay: Ints


@njit(cache=True)
def clone_copies(p: ProblemArrays, chip_of: Ints) -> Bools:
    """`[K, C]`, the chips that need a copy of each clonable unit."""
    copies = np.zeros((p.num_clonable, p.num_chips), dtype=np.bool_)
    if p.num_clonable:
        for u in range(p.compute_s.size):
            if p.clone_row[u] >= 0:
                for k in range(p.clone_ptr[u], p.clone_ptr[u + 1]):
                    copies[p.clone_row[u], chip_of[p.clone_users[k]]] = True
    return copies


@njit(cache=True)
def peak_live_bytes(p: ProblemArrays, chip_of: Ints, leaves: Bools) -> Longs:
    """`[C]`, peak of activations that are made and read on one chip, in unit order."""
    num_units = p.compute_s.size
    live = np.zeros(p.num_chips, dtype=np.int64)
    peak = np.zeros(p.num_chips, dtype=np.int64)
    first_dying = np.full(num_units, -1, dtype=np.int64)
    next_dying = np.full(p.kind.size, -1, dtype=np.int64)
    for u in range(num_units):
        if p.clone_row[u] >= 0:
            continue
        c = chip_of[u]
        for k in range(p.unit_ptr[u], p.unit_ptr[u + 1]):
            t = p.unit_tensors[k]
            if leaves[t]:
                continue
            live[c] += p.live[t]
            last = u
            if p.reader_ptr[t] < p.reader_ptr[t + 1]:
                last = p.readers[p.reader_ptr[t + 1] - 1]
            next_dying[t] = first_dying[last]
            first_dying[last] = t
        peak[c] = max(peak[c], live[c])
        t = first_dying[u]
        while t >= 0:
            live[c] -= p.live[t]
            t = next_dying[t]
    return peak


@njit(cache=True)
def needed_live_bytes(p: ProblemArrays, chip_of: Ints) -> Longs:
    """`[C]`, the most that one kernel of each chip reads and makes of what stays there."""
    at_once = np.zeros(p.compute_s.size, dtype=np.int64)
    for t in range(p.kind.size):
        live = p.live[t]
        if live == 0:
            continue
        c = chip_of[p.tensor_producer[t]]
        stays = True
        for e in range(p.stay_ptr[t], p.stay_ptr[t + 1]):
            stays = stays and chip_of[p.stay[e]] == c
        if stays:
            for e in range(p.held_ptr[t], p.held_ptr[t + 1]):
                at_once[p.held[e]] += live
    most = np.zeros(p.num_chips, dtype=np.int64)
    for u in range(at_once.size):
        if p.clone_row[u] < 0:
            most[chip_of[u]] = max(most[chip_of[u]], at_once[u])
    return most


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


@lean_njit
def count_weights(
    p: ProblemArrays, chip_of: Ints, stamp: Longs, weights: Longs, largest: Longs
) -> None:
    """Counts each weight once on each chip that uses it; `stamp[C]` holds -1."""
    for w in range(p.weight_room.size):
        for e in range(p.weight_ptr[w], p.weight_ptr[w + 1]):
            c = chip_of[p.weight_users[e]]
            if stamp[c] != w:
                stamp[c] = w
                weights[c] += p.weight_room[w]
                largest[c] = max(largest[c], p.weight_room[w])


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
