"""Queues of ready ops, one per device, in one array; compiled."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.arrays.types import Floats, Ints, Longs

FIRST, END, FRESH = 0, 1, 2
"""Rows of the marks: where the queue of each device begins, ends, and ended before this round."""


@lean_inner_njit
def begin(place: Ints, marks: Longs) -> None:
    """Lays out empty queues, each with room for all ops of its device."""
    marks[:] = 0
    for n in range(len(place)):
        marks[FRESH, place[n]] += 1
    total = 0
    for d in range(marks.shape[1]):
        size = marks[FRESH, d]
        marks[:, d] = total
        total += size


@inlined_njit
def push(ready: Ints, marks: Longs, n: int, d: int, priority: Floats) -> None:
    """Puts an op into the queue of its device.

    With priorities it is a heap; without, ops stand in the order of rounds, and those of one round
    in the order of their numbers.
    """
    at = marks[END, d]
    marks[END, d] += 1
    if len(priority) == 0:
        while at > marks[FRESH, d] and ready[at - 1] > n:
            ready[at] = ready[at - 1]
            at -= 1
        ready[at] = n
        return
    base = marks[FIRST, d]
    child = at - base
    while child > 0:
        parent = (child - 1) >> 1
        other = int(ready[base + parent])
        if not _before(priority, n, other):
            break
        ready[base + child] = other
        child = parent
    ready[base + child] = n


@inlined_njit
def pop(ready: Ints, marks: Longs, d: int, priority: Floats) -> int:
    """Takes the op out of the queue of a device that starts next."""
    base = marks[FIRST, d]
    n = int(ready[base])
    if len(priority) == 0:
        marks[FIRST, d] += 1
        return n
    marks[END, d] -= 1
    size = marks[END, d] - base
    last = int(ready[base + size])
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        best = int(ready[base + child])
        if child + 1 < size and _before(priority, int(ready[base + child + 1]), best):
            child += 1
            best = int(ready[base + child])
        if not _before(priority, best, last):
            break
        ready[base + parent] = best
        parent = child
    ready[base + parent] = last
    return n


@inlined_njit
def _before(priority: Floats, one: int, other: int) -> bool:
    """Whether an op starts before another one that is ready as well."""
    if priority[one] != priority[other]:
        return priority[one] > priority[other]
    return one < other
