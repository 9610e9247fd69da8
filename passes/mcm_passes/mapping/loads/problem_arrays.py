"""A problem in flat arrays, and what compiled code counts of it whatever connects the devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.lean_kernels import lean_njit
from mcm_compiler.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_passes.mapping.loads.demand_table import Resource, Subject, Trigger, demand_table
from mcm_passes.mapping.loads.tensor_columns import LIVE, tensor_columns
from mcm_passes.partitioning.rooms import needed_rooms


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


def problem_arrays(problem: PartitionProblem) -> ProblemArrays:
    """A problem as compiled code takes it; it holds on to the problem's arrays, not to it."""
    order = np.argsort(problem.tensor_producer, kind="stable")
    made = order[problem.tensor_producer[order] >= 0]
    counts = np.bincount(problem.tensor_producer[made], minlength=problem.num_units)
    need = problem.memory == "need"
    no_rows = (np.zeros(0, np.int64), np.zeros(0, np.int32))
    rooms = needed_rooms(problem) if need else None
    table = demand_table(problem)
    columns = tensor_columns(table)
    return ProblemArrays(
        compute_s=problem.compute_s,
        clone_row=np.where(problem.clonable, np.cumsum(problem.clonable) - 1, np.int64(-1)).astype(
            np.int32
        ),
        num_clonable=int(problem.clonable.sum()),
        clone_ptr=problem.clone_closure.ptr,
        clone_users=problem.clone_closure.entries,
        kind=columns.kind,
        amount=columns.amount,
        passed_s=columns.passed_s,
        live=columns.amount[:, LIVE].copy(),
        tensor_producer=problem.tensor_producer,
        reader_ptr=problem.placed_readers.ptr,
        readers=problem.placed_readers.entries,
        unit_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        unit_tensors=made.astype(np.int64),
        weight_room=table.amount(Subject.WEIGHT, Trigger.READ, Resource.WEIGHT).astype(np.int64),
        weight_ptr=problem.placed_weight_users.ptr,
        weight_users=problem.placed_weight_users.entries,
        num_chips=problem.num_chips,
        need=need,
        held_ptr=rooms.held_ptr if rooms else no_rows[0],
        held=rooms.held if rooms else no_rows[1],
        stay_ptr=rooms.stay_ptr if rooms else no_rows[0],
        stay=rooms.stay if rooms else no_rows[1],
    )
