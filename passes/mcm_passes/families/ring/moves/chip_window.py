"""The part of a problem that neighbouring chips decide when all other chips stay as they are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Bools, Ints, Longs, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import aliases_among, tensor_sizes

BEFORE, AFTER = "before the window", "after the window"
"""Names of the units that stand for all chips on either side."""


@dataclass(frozen=True, eq=False)
class ChipWindow:
    """A smaller problem: the units of some neighbouring chips, and one unit for either side.

    The sides are pinned to chips of their own, take no time, and make and read what crosses the
    ends of the window; so every load within the window is what it is in the whole problem. Only
    for packages where every chip reaches the host.

    Attributes:
        problem: the smaller problem.
        units: `[n]`, the unit of the whole problem that each of its units is, or -1 for sides.
        first: chip of the whole problem that its chip 0 is.
    """

    problem: PartitionProblem
    units: Ints
    first: int

    def inside(self, chip_of: Ints) -> Ints:
        """A partition of the whole problem as one of the smaller problem."""
        chips = chip_of[np.maximum(self.units, 0)] - self.first
        sides = self.units < 0
        chips[sides] = self.problem.pinned_chip[sides]
        return chips.astype(np.int32)

    def outside(self, chip_of: Ints, found: Ints) -> Ints:
        """The whole problem's partition `chip_of` with what was `found` for the window."""
        whole = chip_of.copy()
        own = self.units >= 0
        whole[self.units[own]] = found[own] + self.first
        return whole


def chip_window(problem: PartitionProblem, chip_of: Ints, first: int, last: int) -> ChipWindow:
    """The window of chips `first` to `last`, both included, around a valid partition.

    Args:
        problem: the whole problem; its host reaches every chip.
        chip_of: `[N]`, where all units are.
        first: lowest chip of the window.
        last: highest chip of the window.
    """
    fixed = ~problem.clonable
    inside = fixed & (chip_of >= first) & (chip_of <= last)
    before, after = fixed & (chip_of < first), fixed & (chip_of > last)
    lead, tail = bool(before.any()), bool(after.any())
    # Clonable units come along where something in the window reads them, directly or not.
    needed = inside.copy()
    for unit in np.flatnonzero(problem.clonable).tolist():
        needed[unit] = bool(inside[problem.clone_closure.row(unit)].any())
    own = np.flatnonzero(needed).astype(np.int32)
    units = np.concatenate([[-1] * lead, own, [-1] * tail]).astype(np.int32)
    number = np.full(problem.num_units, -1, np.int64)
    number[own] = np.arange(own.size) + lead
    number[before], number[after] = (0 if lead else -1), (units.size - 1 if tail else -1)
    chips = last - first + 1 + lead + tail
    pinned = np.where(units >= 0, problem.pinned_chip[np.maximum(units, 0)], -1)
    pinned = np.where(pinned >= 0, pinned - first + lead, -1)
    if lead:
        pinned[0] = 0
    if tail:
        pinned[-1] = chips - 1

    tensors: list[int] = []
    rows: list[Longs] = []
    touched: list[Bools] = []
    for t, producer in enumerate(problem.tensor_producer.tolist()):
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        maker = int(number[producer]) if producer >= 0 else -1
        if producer >= 0 and maker < 0:
            continue
        at_sides = producer < 0 or bool(problem.clonable[producer])
        kept = readers[needed[readers]] if at_sides else readers
        row = np.unique(number[kept]).astype(np.int64)
        row = row[(row >= 0) & (row != maker)]
        sends = producer >= 0 and bool(needed[producer]) and bool(problem.tensor_to_host[t])
        if not row.size and not (sends or (producer >= 0 and needed[producer])):
            continue
        tensors.append(t)
        rows.append(row)
        reads = problem.tensor_touched[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        touched.append(np.isin(row, number[readers[reads]]))
    chosen = np.array(tensors, np.int64)
    maker = problem.tensor_producer[chosen]
    own_maker = (maker >= 0) & needed[np.maximum(maker, 0)]
    weights: list[int] = []
    users: list[Longs] = []
    weight_touched: list[Bools] = []
    for w in range(problem.weight_bytes.size):
        row = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        here = needed[row]
        if here.any():
            # Units of the window stand in the order that they have in the whole problem.
            weights.append(w)
            users.append(number[row[here]])
            held = problem.weight_touched[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
            weight_touched.append(held[here])
    whole = np.maximum(units, 0)
    real = units >= 0
    limits = problem.limits
    sram, speed = limits.sram_bytes, problem.chip_speed.tolist()
    side = int(tensor_sizes(problem).sum()) * 4 * max(limits.channel_slots, 1) + 1
    window = dataclasses.replace(
        problem,
        names=(
            *([BEFORE] * lead),
            *(problem.names[u] for u in own.tolist()),
            *([AFTER] * tail),
        ),
        members=(*([()] * lead), *(problem.members[u] for u in own.tolist()), *([()] * tail)),
        compute_s=np.where(real, problem.compute_s[whole], 0.0),
        clonable=real & problem.clonable[whole],
        pinned_chip=pinned.astype(np.int32),
        tensor_names=tuple(problem.tensor_names[t] for t in tensors),
        tensor_bytes=problem.tensor_bytes[chosen],
        tensor_producer=np.where(maker >= 0, number[np.maximum(maker, 0)], -1).astype(np.int32),
        tensor_ptr=_starts(rows),
        tensor_consumers=_joined(rows),
        tensor_to_host=problem.tensor_to_host[chosen] & own_maker,
        relay_s=problem.relay_s[chosen],
        weight_names=tuple(problem.weight_names[w] for w in weights),
        weight_bytes=problem.weight_bytes[np.array(weights, np.int64)],
        weight_ptr=_starts(users),
        weight_users=_joined(users),
        tensor_alias=aliases_among(problem, chosen),
        tensor_touched=_flags(touched),
        weight_touched=_flags(weight_touched),
        one_kernel=~real | problem.one_kernel[whole],
        limits=dataclasses.replace(
            limits,
            num_chips=chips,
            sram_bytes=(*([side] * lead), *sram[first : last + 1], *([side] * tail)),
            chip_speed=(*([1.0] * lead), *speed[first : last + 1], *([1.0] * tail)),
        ),
    )
    return ChipWindow(window, units, first - lead)


def _starts(rows: list[Longs]) -> Longs:
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([row.size for row in rows], out=starts[1:])
    return starts


def _flags(rows: list[Bools]) -> Bools:
    return np.concatenate([np.empty(0, np.bool_), *rows])


def _joined(rows: list[Longs]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int32)
