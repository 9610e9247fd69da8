"""What each chip runs and passes on: legalisation of a partition, as compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Bools, Ints, Longs
from mcm_hardware.batch.problem_tables import ProblemTables


class Placement(NamedTuple):
    """A partition made executable.

    Attributes:
        num_used: chips that run something, from 0.
        item_ptr: `[num_used + 1]`.
        items: what each chip runs, in order: a kernel of the tables, or `-1 - t` for a relay of
            tensor t.
        sent: `[V]`, whether a value leaves the chip that makes it.
        relay_begin: `[V]`, first chip that relays a value.
        relay_end: `[V]`, one past the last such chip.
    """

    num_used: int
    item_ptr: Longs
    items: Longs
    sent: Bools
    relay_begin: Longs
    relay_end: Longs


@njit(nogil=True, cache=True)
def place(tables: ProblemTables, chip_of: Ints, num_chips: int) -> Placement:
    """What `legalize` does to the graph: clones, relays, and the order of kernels on each chip.

    Args:
        tables: the problem.
        chip_of: `[N]`, breaking no rule; entries of clonable units are not looked at.
        num_chips: chips on the ring.
    """
    num_used = 0
    for unit in range(len(chip_of)):
        if tables.clone_row[unit] < 0:
            num_used = max(num_used, chip_of[unit] + 1)
    copies = _copies(tables, chip_of, num_used)
    num_values = len(tables.value_bytes)
    sent = np.zeros(num_values, np.bool_)
    relay_begin = np.zeros(num_values, np.int64)
    relay_end = np.zeros(num_values, np.int64)
    for tensor in range(len(tables.tensor_value)):
        _route(tables, chip_of, copies, num_used, tensor, sent, relay_begin, relay_end)
    return _items(tables, chip_of, copies, num_used, sent, relay_begin, relay_end)


@njit(nogil=True, cache=True)
def _copies(tables: ProblemTables, chip_of: Ints, num_used: int) -> Bools:
    """`[clonable units, num_used]`, the chips that hold a copy of each."""
    copies = np.zeros((tables.num_clonable, num_used), np.bool_)
    if tables.num_clonable == 0:
        return copies
    # Backwards, because readers come after producers and decide where those are needed.
    for tensor in range(len(tables.tensor_value) - 1, -1, -1):
        producer = tables.tensor_producer[tensor]
        if producer < 0 or tables.clone_row[producer] < 0:
            continue
        row = tables.clone_row[producer]
        for at in range(tables.tensor_ptr[tensor], tables.tensor_ptr[tensor + 1]):
            reader = tables.tensor_consumers[at]
            if tables.clone_row[reader] < 0:
                copies[row, chip_of[reader]] = True
            else:
                for chip in range(num_used):
                    copies[row, chip] |= copies[tables.clone_row[reader], chip]
    return copies


@njit(nogil=True, cache=True)
def _route(
    tables: ProblemTables,
    chip_of: Ints,
    copies: Bools,
    num_used: int,
    tensor: int,
    sent: Bools,
    relay_begin: Longs,
    relay_end: Longs,
) -> None:
    """Fills the entries of one tensor."""
    producer = tables.tensor_producer[tensor]
    if producer >= 0 and tables.clone_row[producer] >= 0:
        return
    value = tables.tensor_value[tensor]
    source = -1 if producer < 0 else np.int64(chip_of[producer])
    to_host = producer >= 0 and tables.tensor_to_host[tensor]
    last = np.int64(-1)
    for at in range(tables.tensor_ptr[tensor], tables.tensor_ptr[tensor + 1]):
        reader = tables.tensor_consumers[at]
        row = tables.clone_row[reader]
        if row < 0:
            last = max(last, np.int64(chip_of[reader]))
        else:
            for chip in range(num_used - 1, last, -1):
                if copies[row, chip]:
                    last = np.int64(chip)
                    break
    sent[value] = producer >= 0 and (to_host or last > source)
    if producer < 0 and not tables.ends:
        return
    collected = tables.ends and to_host
    if not (tables.relays or producer < 0 or collected):
        return
    if collected:
        last = np.int64(num_used - 1)
    relay_begin[value] = source + 1
    relay_end[value] = last + 1 if collected and last > source else last


@njit(nogil=True, cache=True)
def _items(
    tables: ProblemTables,
    chip_of: Ints,
    copies: Bools,
    num_used: int,
    sent: Bools,
    relay_begin: Longs,
    relay_end: Longs,
) -> Placement:
    """Lists what each chip runs: constant ops, relays, and the units in their order."""
    num_units = len(chip_of)
    item_ptr = np.zeros(num_used + 1, np.int64)
    for unit in range(num_units):
        kernels = tables.kernel_ptr[unit + 1] - tables.kernel_ptr[unit]
        row = tables.clone_row[unit]
        if row < 0:
            item_ptr[chip_of[unit] + 1] += kernels
        else:
            for chip in range(num_used):
                if copies[row, chip]:
                    item_ptr[chip + 1] += kernels
    for value in tables.tensor_value:
        for chip in range(relay_begin[value], relay_end[value]):
            item_ptr[chip + 1] += 1
    for chip in range(num_used):
        item_ptr[chip + 1] += item_ptr[chip]
    free = item_ptr[:-1].copy()
    items = np.empty(item_ptr[num_used], np.int64)
    for kernel in tables.early_kernels:
        # What makes a graph output is not clonable.
        chip = chip_of[tables.kernel_unit[kernel]]
        items[free[chip]] = kernel
        free[chip] += 1
    for tensor in range(len(tables.tensor_value)):
        value = tables.tensor_value[tensor]
        for chip in range(relay_begin[value], relay_end[value]):
            items[free[chip]] = -1 - tensor
            free[chip] += 1
    for unit in range(num_units):
        row = tables.clone_row[unit]
        for kernel in range(tables.kernel_ptr[unit], tables.kernel_ptr[unit + 1]):
            if tables.is_early[kernel]:
                continue
            if row < 0:
                chip = chip_of[unit]
                items[free[chip]] = kernel
                free[chip] += 1
            else:
                for chip in range(num_used):
                    if copies[row, chip]:
                        items[free[chip]] = kernel
                        free[chip] += 1
    return Placement(num_used, item_ptr, items, sent, relay_begin, relay_end)
