"""A problem in flat arrays, and what compiled code counts of it whatever connects the devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_passes.mapping.loads.chip_demands import LIVE, ChipDemands, unit_demands
from mcm_passes.mapping.loads.device_memory import LivePeaks, end_unit, hold


class KindSeconds(NamedTuple):
    """Seconds at speed 1 of what units demand, on a device of each of K kinds.

    Attributes:
        unit_s: `[K, N]`; where devices of a kind cannot run a unit, more than all units take
            together. No search prefers such a placement, which breaks a rule, to one that keeps
            all rules.
        item_s: `[K, I]`.
        relay_s: `[K, T]`, of a relay of each tensor.
        copied_s: `[K, T]`, of the copy of a view.
    """

    unit_s: Floats
    item_s: Floats
    relay_s: Floats
    copied_s: Floats


class ProblemArrays(NamedTuple):
    """A partition problem as the compiled code takes it.

    Attributes:
        num_chips: C.
        block_bytes: bytes of a block of memory.
        demands: of all units, which are its nodes; memory in blocks.
        kind_of: `[C]`, the kind of each chip.
        seconds: on each kind.
        copied: the tensors that are copied on some kind where they leave their chip, ascending.
        clone_row: `[N]`, counts the clonable units from 0; -1 for all others.
        clone_users: `[N]` rows of the units whose chips hold each unit.
    """

    num_chips: int
    block_bytes: int
    demands: ChipDemands
    kind_of: Ints
    seconds: KindSeconds
    copied: Longs
    clone_row: Ints
    clone_users: Rows


class Measured(NamedTuple):
    """Loads of all resources for one placement on C devices, and space to count them.

    Attributes:
        busy_s: `[C]`, at speed 1.
        crossed: `[L]`, bytes of each channel.
        held: `[C]`, bytes of buffers that are taken all the time.
        weights: `[C]`, bytes.
        largest: `[C]`, bytes of the largest weight.
        peak: `[C]`, bytes of local activations in unit order, or at need of the hungriest kernel.
        entered: `[C]`, bytes from the host of what every reader gets from it.
        lost: `[1]`, tensors that have no route to some place where they are wanted, once for each.
        leaves: `[T]`, which tensors leave the device that makes them.
        stamp: `[C]`, space.
        live: `[C]`, space that holds 0.
        ends_at: `[N]`, likewise.
    """

    busy_s: Floats
    crossed: Longs
    held: Longs
    weights: Longs
    largest: Longs
    peak: Longs
    entered: Longs
    lost: Longs
    leaves: Bools
    stamp: Longs
    live: Longs
    ends_at: Longs


def no_loads(p: ProblemArrays, num_channels: int) -> Measured:
    """Space for the loads of placements."""
    chips, demands = p.num_chips, p.demands
    held, weights, largest, peak, entered, stamp, live = (
        np.zeros(chips, np.int64) for _ in range(7)
    )
    return Measured(
        np.zeros(chips),
        np.zeros(num_channels, np.int64),
        held,
        weights,
        largest,
        peak,
        entered,
        np.zeros(1, np.int64),
        np.zeros(demands.tensors.producer.size, np.bool_),
        stamp,
        live,
        np.zeros(p.clone_row.size, np.int64),
    )


# Kernels make no arrays: each that is given to one that does costs two atomic operations.


@lean_inner_njit
def count_own(p: ProblemArrays, chip_of: Ints, found: Measured) -> None:
    """Sets the loads of units and items on their own chips; `chip_of[N]` is in range.

    Memory is in blocks.
    """
    found.busy_s[:] = 0.0
    found.held[:] = 0
    found.weights[:] = 0
    found.largest[:] = 0
    found.entered[:] = 0
    found.stamp[:] = 0
    one_kind = p.seconds.unit_s.shape[0] == 1
    for u in range(p.clone_row.size):
        if p.clone_row[u] < 0:
            c = chip_of[u]
            found.busy_s[c] += p.seconds.unit_s[0 if one_kind else p.kind_of[c], u]
    # What a chip needs once, however many of its units do.
    items = p.demands.items
    for i in range(items.busy_s.size):
        for e in range(items.users.ptr[i], items.users.ptr[i + 1]):
            c = chip_of[items.users.entries[e]]
            if found.stamp[c] > i:
                continue
            found.stamp[c] = i + 1
            if items.weight[i]:
                found.weights[c] += items.weight[i]
                found.largest[c] = max(found.largest[c], items.weight[i])
            else:
                found.busy_s[c] += p.seconds.item_s[p.kind_of[c], i]
                found.held[c] += items.held[i]
                found.entered[c] += items.in_bytes[i]


@lean_inner_njit
def count_view_copies(p: ProblemArrays, chip_of: Ints, found: Measured) -> None:
    """Counts the copies of views that leave the chips that make them."""
    tensors = p.demands.tensors
    for t in p.copied:
        if found.leaves[t]:
            c, writer = chip_of[tensors.producer[t]], tensors.writer[t]
            copied_s = p.seconds.copied_s[p.kind_of[c], t]
            if copied_s > 0.0 and (writer < 0 or chip_of[writer] != c):
                found.busy_s[c] += copied_s


@lean_inner_njit
def set_peaks(p: ProblemArrays, chip_of: Ints, found: Measured) -> None:
    """Sets the blocks that are live at once of what is made and read on one chip.

    In the order of the units, or at need what one kernel of the chip reads and makes.
    """
    found.peak[:] = 0
    if p.demands.held.need:
        _set_needed_peaks(p, chip_of, found)
        return
    peaks = LivePeaks(found.live, found.peak, found.ends_at)
    made, tensors = p.demands.nodes.made, p.demands.tensors
    for u in range(p.clone_row.size):
        if p.clone_row[u] >= 0:
            continue
        for k in range(made.ptr[u], made.ptr[u + 1]):
            t = made.entries[k]
            if not found.leaves[t]:
                hold(peaks, chip_of[u], u, tensors.readers, t, tensors.amount[t, LIVE])
        end_unit(peaks, chip_of[u], u)


@inlined_njit
def _set_needed_peaks(p: ProblemArrays, chip_of: Ints, found: Measured) -> None:
    """As `set_peaks` at need."""
    by, beside, tensors = p.demands.held.by, p.demands.held.beside, p.demands.tensors
    for t in range(tensors.producer.size):
        live = tensors.amount[t, LIVE]
        if live == 0:
            continue
        c = chip_of[tensors.producer[t]]
        stays = True
        for e in range(beside.ptr[t], beside.ptr[t + 1]):
            stays = stays and chip_of[beside.entries[e]] == c
        if stays:
            for e in range(by.ptr[t], by.ptr[t + 1]):
                found.ends_at[by.entries[e]] += live
    for u in range(p.clone_row.size):
        if p.clone_row[u] < 0:
            found.peak[chip_of[u]] = max(found.peak[chip_of[u]], found.ends_at[u])
        found.ends_at[u] = 0


def kind_seconds(problem: PartitionProblem, demands: ChipDemands) -> KindSeconds:
    """The seconds of what units of a problem demand, on each kind of its devices."""
    unit_s = np.array(problem.unit_seconds, np.float64, order="C")
    if problem.kinds is not None:
        unit_s[~problem.kinds.can_run] += unit_s.max(axis=0).sum()
    items, tensors, copies = demands.items, demands.tensors, problem.copies
    copied_s = np.zeros((len(unit_s), problem.tensor_bytes.size))
    if copies is not None:
        copied_s[:, copies.tensor] = copies.by_kind
    return KindSeconds(
        unit_s,
        np.ascontiguousarray(np.where(items.unit >= 0, unit_s[:, items.unit], 0.0)),
        np.ascontiguousarray(problem.relay_seconds[:, tensors.number], np.float64),
        np.ascontiguousarray(copied_s[:, tensors.number]),
    )


def problem_arrays(problem: PartitionProblem) -> ProblemArrays:
    """A problem as compiled code takes it; it holds on to the problem's arrays, not to it."""
    demands = unit_demands(problem)
    seconds = kind_seconds(problem, demands)
    clone_row = np.where(problem.clonable, np.cumsum(problem.clonable) - 1, np.int64(-1))
    return ProblemArrays(
        num_chips=problem.num_chips,
        block_bytes=problem.limits.buffer_alignment_bytes,
        demands=demands,
        kind_of=np.array(problem.kind_of, np.int32),
        seconds=seconds,
        copied=np.flatnonzero((seconds.copied_s > 0.0).any(axis=0)),
        clone_row=clone_row.astype(np.int32),
        clone_users=problem.clone_closure,
    )
