"""Kernels and transfers of each chip: legalisation of a partition, as compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit
from mcm_compiler.contracts.partition import Bools, Ints, Longs
from mcm_compiler.placements.compiled_rules import copies_of, last_reader, last_used
from mcm_compiler.placements.ring_rules import CLONED, COLLECTED, FORWARDED, FROM_HOST, TO_HOST
from mcm_hardware.families.ring.batch.problem_tables import ProblemTables, UnitTables

NOWHERE = -1
"""Home of what no op on a chip makes: graph inputs and constants."""

EVERYWHERE = -2
"""Home of what clones make."""


class LegalisedPartition(NamedTuple):
    """A partition made executable.

    Attributes:
        item_ptr: `[P + 1]`, items of each of the P used chips.
        items: what each chip runs, in order: a kernel of the tables, or `-1 - t` for a relay of
            tensor t.
        home: `[V]`, chip that makes a value, `NOWHERE` or `EVERYWHERE`.
        sent: `[V]`, whether a value leaves its home.
        relays: `[V, 3]`, the first chip that relays a value, and one past the last; and whether it
            leaves at the end of the package, from where it is made or read last.
    """

    item_ptr: Longs
    items: Longs
    home: Longs
    sent: Bools
    relays: Longs


@inner_njit
def place(tables: ProblemTables, chip_of: Ints) -> LegalisedPartition:
    """Return what `legalize` makes of the graph: clones, relays, and kernel order on each chip.

    Args:
        tables: the problem.
        chip_of: `[N]`, breaking no rule; entries of clonable units are not looked at.
    """
    units, values = tables.units, tables.values
    num_used = last_used(units.clone_row, chip_of) + 1
    home = np.full(len(values.unit), NOWHERE)
    for value in range(len(home)):
        unit = values.unit[value]
        if unit >= 0:
            home[value] = chip_of[unit] if units.clone_row[unit] < 0 else EVERYWHERE
    sent = np.zeros(len(home), np.bool_)
    relays = np.zeros((len(home), 3), np.int64)
    _route(tables, chip_of, home, sent, relays)
    item_ptr, items = _items(tables, chip_of, num_used, relays)
    return LegalisedPartition(item_ptr, items, home, sent, relays)


@inner_njit
def _route(tables: ProblemTables, chip_of: Ints, home: Longs, sent: Bools, relays: Longs) -> None:
    """Fills `sent` and `relays`."""
    tensors = tables.tensors
    for tensor in range(len(tensors.value)):
        kind, value = tensors.kind[tensor], tensors.value[tensor]
        if kind & CLONED:
            continue
        last = last_reader(tensors.reader_ptr, tensors.readers, tensor, chip_of)
        if kind & FROM_HOST:
            continue
        source = int(home[value])
        sent[value] = kind & TO_HOST > 0 or last > source
        if kind & FORWARDED and last > source:
            relays[value, 0], relays[value, 1] = source + 1, last
        relays[value, 2] = kind & COLLECTED > 0 and source > 0


@inlined_njit
def _chips_of(units: UnitTables, chip_of: Ints, copies: Bools, unit: int, chips: Longs) -> int:
    """How many chips run a unit; `chips[:count]` are set to them, ascending."""
    row = units.clone_row[unit]
    if row < 0:
        chips[0] = chip_of[unit]
        return 1
    count = 0
    for chip in range(copies.shape[1]):
        if copies[row, chip]:
            chips[count] = chip
            count += 1
    return count


@inlined_njit
def _list_item(items: Longs, free: Longs, chip: int, item: int) -> None:
    """Adds an item behind those of a chip; `free` is the next place of each chip."""
    items[free[chip]] = item
    free[chip] += 1


@inner_njit
def _items(
    tables: ProblemTables, chip_of: Ints, num_used: int, relays: Longs
) -> tuple[Longs, Longs]:
    """Lists what each chip runs: constant ops, relays, and the units in their order."""
    units, kernels, tensors = tables.units, tables.kernels, tables.tensors
    copies = copies_of(units.clone_row, units.user_ptr, units.users, chip_of, num_used)
    chips = np.empty(num_used, np.int64)
    item_ptr = np.zeros(num_used + 1, np.int64)
    for unit in range(len(chip_of)):
        for k in range(_chips_of(units, chip_of, copies, unit, chips)):
            item_ptr[chips[k] + 1] += units.kernel_ptr[unit + 1] - units.kernel_ptr[unit]
    for value in tensors.value:
        item_ptr[relays[value, 0] + 1 : relays[value, 1] + 1] += 1
    for chip in range(num_used):
        item_ptr[chip + 1] += item_ptr[chip]
    free = item_ptr[:-1].copy()
    items = np.empty(item_ptr[num_used], np.int64)
    for early in range(len(kernels.early)):
        # What makes a graph output is not clonable.
        _list_item(items, free, int(chip_of[kernels.early_unit[early]]), kernels.early[early])
    for tensor in range(len(tensors.value)):
        value = tensors.value[tensor]
        for chip in range(relays[value, 0], relays[value, 1]):
            _list_item(items, free, chip, -1 - tensor)
    for unit in range(len(chip_of)):
        count = _chips_of(units, chip_of, copies, unit, chips)
        for kernel in range(units.kernel_ptr[unit], units.kernel_ptr[unit + 1]):
            for k in range(0 if kernels.is_early[kernel] else count):
                _list_item(items, free, chips[k], kernel)
    return item_ptr, items
