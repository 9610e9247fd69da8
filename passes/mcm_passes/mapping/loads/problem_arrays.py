"""A problem in flat arrays, and what compiled code counts of it whatever connects the devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.compiled_rules import copies_of
from mcm_passes.mapping.loads.demand_table import (
    DemandTable,
    Resource,
    Subject,
    Trigger,
    demand_table,
)
from mcm_passes.mapping.loads.device_memory import end_unit, hold, live_peaks
from mcm_passes.mapping.problem.resident_sizes import needed_sizes

CROSSED, EXITED, ENTERED, MADE, RECEIVED, SENT, PASSED, LIVE = range(8)
"""Columns of `TensorColumns.amount`, named after their triggers."""


_COLUMNS = (
    (Trigger.CROSSED, Resource.LINK),
    (Trigger.EXITED, Resource.HOST_OUT),
    (Trigger.ENTERED, Resource.HOST_IN),
    (Trigger.MADE, Resource.HELD),
    (Trigger.RECEIVED, Resource.HELD),
    (Trigger.SENT, Resource.HELD),
    (Trigger.PASSED, Resource.HELD),
    (Trigger.STAYS, Resource.LIVE),
)


_KNOWN = {
    (Subject.UNIT, Trigger.MADE, Resource.BUSY),
    (Subject.TENSOR, Trigger.PASSED, Resource.BUSY),
    (Subject.TENSOR, Trigger.COPIED, Resource.BUSY),
    (Subject.WEIGHT, Trigger.READ, Resource.WEIGHT),
    *((Subject.TENSOR, trigger, resource) for trigger, resource in _COLUMNS),
    (Subject.TENSOR, Trigger.ENTERED, Resource.HOST_ROOT_IN),
    (Subject.TENSOR, Trigger.EXITED, Resource.HOST_ROOT_OUT),
}


class TensorColumns(NamedTuple):
    """The demands of tensors.

    Attributes:
        kind: `[T]`, bits of `ring_routes`.
        amount: `[T, 8]`, bytes, or blocks of the alignment where they are memory.
        passed_s: `[T]`, seconds of a chip that passes the tensor on.
    """

    kind: Longs
    amount: Longs
    passed_s: Floats


def tensor_columns(table: DemandTable, block_bytes: int = 1) -> TensorColumns:
    """The demands of all tensors.

    Args:
        table: the table.
        block_bytes: what memory is counted in; all of it is a multiple.

    Raises:
        NotImplementedError: if the table has a demand that is not counted here.
    """
    table.check_known(_KNOWN)
    columns = [
        table.amount(Subject.TENSOR, trigger, resource)
        // (block_bytes if resource in {Resource.HELD, Resource.LIVE} else 1)
        for trigger, resource in _COLUMNS
    ]
    return TensorColumns(
        kind=table.kinds,
        amount=np.ascontiguousarray(np.stack(columns, axis=1), np.int64),
        # A copy: arrays of a problem are read-only and others are not, and kernels that take one
        # of each are compiled twice.
        passed_s=np.array(table.amount(Subject.TENSOR, Trigger.PASSED, Resource.BUSY), np.float64),
    )


class CopyArrays(NamedTuple):
    """V views that may be copied, as in `ViewCopies`.

    Attributes:
        tensor: `[V]`.
        writer: `[V]`.
        seconds: `[K, V]`.
    """

    tensor: Ints
    writer: Ints
    seconds: Floats


class ProblemArrays(NamedTuple):
    """A partition problem as the compiled code takes it.

    Attributes:
        num_chips: C.
        last_chip: as in `PackageLimits`.
        kind_of: `[C]`, the kind of each chip.
        unit_s: `[K, N]`, seconds of each unit on a chip of each kind, at speed 1.
        relay_s: `[K, T]`, seconds of a relay of each tensor, likewise.
        clone_row: `[N]`, counts the clonable units from 0; -1 for all others.
        num_clonable: K, how many there are.
        clone_users: `[N]` rows of the units whose chips hold each unit.
        columns: demands of tensors.
        live: `[T]`, a column of it, once more for speed.
        tensor_producer: `[T]`, the unit that makes each tensor, or -1 for the host.
        readers: `[T]` rows of the units with a place of their own that read each tensor, for
            themselves or for a copy.
        unit_tensors: `[N]` rows of the tensors that each unit makes.
        weight_room: `[W]`, bytes of each weight.
        weight_users: `[W]` rows of units, as those of `readers`.
        copies: views that may be copied.
        need: whether memory is counted as `NeededSizes` has it.
        held: `[T]` rows as there; none where memory is counted otherwise.
        stay: likewise.
    """

    num_chips: int
    last_chip: int
    kind_of: Ints
    unit_s: Floats
    relay_s: Floats
    clone_row: Ints
    num_clonable: int
    clone_users: Rows
    columns: TensorColumns
    live: Longs
    tensor_producer: Ints
    readers: Rows
    unit_tensors: Rows
    weight_room: Longs
    weight_users: Rows
    copies: CopyArrays
    need: bool
    held: Rows
    stay: Rows


class OwnLoads(NamedTuple):
    """What units, copies and weights load on their own chips, whatever connects these.

    Attributes:
        copies: `[K, C]`, the chips that hold a copy of each clonable unit.
        busy_s: `[C]`, at speed 1.
        weights: `[C]`, bytes.
        largest: `[C]`, bytes of the largest weight.
    """

    copies: Bools
    busy_s: Floats
    weights: Longs
    largest: Longs


class Measured(NamedTuple):
    """Loads of all resources for one placement on C devices.

    Attributes:
        copies: `[K, C]`, the devices that hold a copy of each clonable unit.
        busy_s: `[C]`, at speed 1.
        crossed: bytes of channels: `[4, C]` on a ring, rows of `ring_kernels`, else `[L]`.
        held: `[C]`, bytes of buffers that are taken all the time.
        weights: `[C]`, bytes.
        peak: `[C]`, bytes of local activations in unit order, or at need of the hungriest kernel.
        largest: `[C]`, bytes of the largest weight.
        lost: tensors that have no route to some place where they are wanted, once for each.
    """

    copies: Bools
    busy_s: Floats
    crossed: Longs
    held: Longs
    weights: Longs
    peak: Longs
    largest: Longs
    lost: int


@inner_njit
def own_loads(p: ProblemArrays, chip_of: Ints) -> OwnLoads:
    """Loads that follow from where units are; entries of `chip_of[N]` are in range."""
    users, num_chips = p.clone_users, p.num_chips
    own = OwnLoads(
        copies_of(p.clone_row, users.ptr, users.entries, chip_of, num_chips),
        np.zeros(num_chips),
        np.zeros(num_chips, np.int64),
        np.zeros(num_chips, np.int64),
    )
    stamp = np.full(num_chips, -1, np.int64)
    _count_units(p, chip_of, own)
    _count_weights(p, chip_of, stamp, own)
    return own


@lean_inner_njit
def _count_units(p: ProblemArrays, chip_of: Ints, own: OwnLoads) -> None:
    """Counts each unit on its chip, or on each chip with a copy."""
    for u in range(p.clone_row.size):
        row = p.clone_row[u]
        if row < 0:
            own.busy_s[chip_of[u]] += p.unit_s[p.kind_of[chip_of[u]], u]
            continue
        for c in range(p.num_chips):
            own.busy_s[c] += own.copies[row, c] * p.unit_s[p.kind_of[c], u]


@lean_inner_njit
def _count_weights(p: ProblemArrays, chip_of: Ints, stamp: Longs, own: OwnLoads) -> None:
    """Counts each weight once on each chip that uses it; `stamp[C]` holds -1."""
    users = p.weight_users
    for w in range(p.weight_room.size):
        for e in range(users.ptr[w], users.ptr[w + 1]):
            c = chip_of[users.entries[e]]
            if stamp[c] != w:
                stamp[c] = w
                own.weights[c] += p.weight_room[w]
                own.largest[c] = max(own.largest[c], p.weight_room[w])


@inlined_njit
def count_copies(p: ProblemArrays, t: int, copies: Bools, held: Longs) -> None:
    """Counts what a tensor that a clonable unit makes takes on each chip with a copy."""
    row = p.clone_row[p.tensor_producer[t]]
    for c in range(p.num_chips):
        if copies[row, c]:
            held[c] += p.columns.amount[t, MADE]


@lean_inner_njit
def count_view_copies(p: ProblemArrays, chip_of: Ints, leaves: Bools, busy_s: Floats) -> None:
    """Counts the copies of views, on the chips that make them.

    Args:
        p: the problem.
        chip_of: `[N]`.
        leaves: `[T]`, which tensors leave the chip that makes them.
        busy_s: `[C]`, at speed 1; changed in place.
    """
    copies = p.copies
    for k in range(copies.tensor.size):
        t, writer = copies.tensor[k], copies.writer[k]
        c = chip_of[p.tensor_producer[t]]
        if leaves[t] and (writer < 0 or chip_of[writer] != c):
            busy_s[c] += copies.seconds[p.kind_of[c], k]


@inner_njit
def live_bytes(p: ProblemArrays, chip_of: Ints, leaves: Bools) -> Longs:
    """`[C]`, the most that is live at once of what is made and read on one chip.

    Args:
        p: the problem.
        chip_of: `[N]`.
        leaves: `[T]`, which tensors leave the chip that makes them.
    """
    return _needed_live_bytes(p, chip_of) if p.need else _peak_live_bytes(p, chip_of, leaves)


@inner_njit
def _peak_live_bytes(p: ProblemArrays, chip_of: Ints, leaves: Bools) -> Longs:
    """`[C]`, peak of activations that are made and read on one chip, in unit order."""
    peaks = live_peaks(p.clone_row.size, p.num_chips)
    made = p.unit_tensors
    for u in range(p.clone_row.size):
        if p.clone_row[u] >= 0:
            continue
        for k in range(made.ptr[u], made.ptr[u + 1]):
            t = made.entries[k]
            if not leaves[t]:
                hold(peaks, chip_of[u], u, p.readers, t, int(p.live[t]))
        end_unit(peaks, chip_of[u], u)
    return peaks.most


@inner_njit
def _needed_live_bytes(p: ProblemArrays, chip_of: Ints) -> Longs:
    """`[C]`, the most that one kernel of each chip reads and makes of what stays there."""
    at_once = np.zeros(p.clone_row.size, dtype=np.int64)
    held, stay = p.held, p.stay
    for t in range(p.live.size):
        live = p.live[t]
        if live == 0:
            continue
        c = chip_of[p.tensor_producer[t]]
        stays = True
        for e in range(stay.ptr[t], stay.ptr[t + 1]):
            stays = stays and chip_of[stay.entries[e]] == c
        if stays:
            for e in range(held.ptr[t], held.ptr[t + 1]):
                at_once[held.entries[e]] += live
    most = np.zeros(p.num_chips, dtype=np.int64)
    for u in range(at_once.size):
        if p.clone_row[u] < 0:
            most[chip_of[u]] = max(most[chip_of[u]], at_once[u])
    return most


def _unit_seconds(problem: PartitionProblem) -> Floats:
    """`[K, N]`; where chips of a kind cannot run a unit, with more than all units take together.

    No search prefers such a placement, which breaks a rule, to one that keeps all rules.
    """
    seconds = np.array(problem.unit_seconds, np.float64, order="C")
    if problem.kinds is not None:
        seconds[~problem.kinds.can_run] += seconds.max(axis=0).sum()
    return seconds


def _copy_arrays(problem: PartitionProblem) -> CopyArrays:
    copies = problem.copies
    if copies is None:
        none = np.zeros(0, np.int32)
        return CopyArrays(none, none, np.zeros((1, 0)))
    return CopyArrays(
        np.array(copies.tensor, np.int32),
        np.array(copies.writer, np.int32),
        np.array(copies.by_kind, np.float64, order="C"),
    )


def problem_arrays(problem: PartitionProblem) -> ProblemArrays:
    """A problem as compiled code takes it; it holds on to the problem's arrays, not to it."""
    table = demand_table(problem)
    columns = tensor_columns(table)
    made = np.flatnonzero(problem.tensor_producer >= 0)
    clone_row = np.where(problem.clonable, np.cumsum(problem.clonable) - 1, np.int64(-1))
    needed = needed_sizes(problem) if problem.memory == "need" else None
    none = Rows(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return ProblemArrays(
        num_chips=problem.num_chips,
        last_chip=problem.limits.last_chip,
        kind_of=np.array(problem.kind_of, np.int32),
        unit_s=_unit_seconds(problem),
        relay_s=np.array(problem.relay_seconds, np.float64, order="C"),
        clone_row=clone_row.astype(np.int32),
        num_clonable=int(problem.clonable.sum()),
        clone_users=problem.clone_closure,
        columns=columns,
        live=columns.amount[:, LIVE].copy(),
        tensor_producer=problem.tensor_producer,
        readers=problem.placed_readers,
        unit_tensors=distinct_rows(problem.tensor_producer[made], made, problem.num_units),
        weight_room=table.amount(Subject.WEIGHT, Trigger.READ, Resource.WEIGHT).astype(np.int64),
        weight_users=problem.placed_weight_users,
        copies=_copy_arrays(problem),
        need=needed is not None,
        held=Rows(needed.held_ptr, needed.held.astype(np.int64)) if needed else none,
        stay=Rows(needed.stay_ptr, needed.stay.astype(np.int64)) if needed else none,
    )
