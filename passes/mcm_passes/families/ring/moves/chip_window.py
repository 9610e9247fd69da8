"""The part of a problem that neighbouring chips decide when all other chips stay as they are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Bools, Ints, Longs, PartitionProblem
from mcm_passes.mapping.problem.contraction import regrouped, with_regrouped
from mcm_passes.mapping.problem.resident_sizes import tensor_sizes

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
    needed, closure = np.zeros(problem.num_units, np.bool_), problem.clone_closure
    needed[closure.owners[inside[closure.entries]]] = True
    own = np.flatnonzero(needed).astype(np.int32)
    units = np.concatenate([[-1] * lead, own, [-1] * tail]).astype(np.int32)
    number = np.full(problem.num_units, -1, np.int64)
    # Units of the window stand in the order that they have in the whole problem.
    number[own] = np.arange(own.size) + lead
    number[before], number[after] = (0 if lead else -1), (units.size - 1 if tail else -1)
    window = _with_loads(problem, number, needed, units.size)

    chips = last - first + 1 + lead + tail
    whole, real = np.maximum(units, 0), units >= 0
    pinned = np.where(real, problem.pinned_chip[whole], -1)
    pinned = np.where(pinned >= 0, pinned - first + lead, -1)
    pinned[:lead], pinned[units.size - tail :] = 0, chips - 1
    limits = problem.limits
    sram, speed = limits.sram_bytes, problem.chip_speed.tolist()
    side = int(tensor_sizes(problem).sum()) * 4 * max(limits.channel_slots, 1) + 1
    window = dataclasses.replace(
        window,
        names=(
            *([BEFORE] * lead),
            *(problem.names[u] for u in own.tolist()),
            *([AFTER] * tail),
        ),
        members=(*([()] * lead), *(problem.members[u] for u in own.tolist()), *([()] * tail)),
        compute_s=np.where(real, problem.compute_s[whole], 0.0),
        clonable=real & problem.clonable[whole],
        pinned_chip=pinned.astype(np.int32),
        one_kernel=~real | problem.one_kernel[whole],
        limits=dataclasses.replace(
            limits,
            num_chips=chips,
            link_latency_s=(),
            sram_bytes=(*([side] * lead), *sram[first : last + 1], *([side] * tail)),
            chip_speed=(*([1.0] * lead), *speed[first : last + 1], *([1.0] * tail)),
        ),
    )
    return ChipWindow(window, units, first - lead)


def _with_loads(
    problem: PartitionProblem, number: Longs, needed: Bools, num_units: int
) -> PartitionProblem:
    """The problem with the tensors and weights of a window.

    Args:
        problem: the whole problem.
        number: `[N]`, the unit of the window that each of its units is or belongs to, or -1.
        needed: `[N]`, which of them are in the window.
        num_units: of the window.
    """
    readers, producer = problem.tensor_consumers, problem.tensor_producer
    made, maker = producer >= 0, np.where(producer >= 0, number[producer], -1)
    # What the host sends to every chip, and what clones make, does not cross the window's ends.
    at_chips = ~made | problem.clonable[producer]
    of_tensor = np.repeat(np.arange(producer.size), np.diff(problem.tensor_ptr))
    here = (number[readers] >= 0) & (number[readers] != maker[of_tensor])
    here &= needed[readers] | ~at_chips[of_tensor]
    own_maker = made & needed[producer]
    tensors = regrouped(
        problem.tensor_ptr, number[readers], problem.tensor_touched, here, own_maker, num_units
    )
    users = problem.weight_users
    none = np.zeros(problem.weight_bytes.size, np.bool_)
    weights = regrouped(
        problem.weight_ptr, number[users], problem.weight_touched, needed[users], none, num_units
    )
    window = with_regrouped(problem, tensors, maker[tensors.kept], weights)
    sends = window.tensor_to_host & own_maker[tensors.kept]
    return dataclasses.replace(window, tensor_to_host=sends)
