"""A binary heap in two arrays: the least key first, among equal ones the least item."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import lean_inner_njit
from mcm_compiler.arrays.types import Floats, Ints, Longs


@lean_inner_njit
def push(key: Longs | Floats, item: Longs | Ints, count: int, new_key: float, new_item: int) -> int:
    """Adds an entry to the heap of the first `count`; returns the new count."""
    at = count
    while at > 0:
        above = (at - 1) // 2
        if key[above] < new_key or (key[above] == new_key and item[above] <= new_item):
            break
        key[at], item[at] = key[above], item[above]
        at = above
    key[at], item[at] = new_key, new_item
    return count + 1


@lean_inner_njit
def pop(key: Longs | Floats, item: Longs | Ints, count: int) -> int:
    """Removes the first entry, which the caller has read; returns the new count."""
    count -= 1
    last_key, last_item = key[count], item[count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        other = below + 1
        if other < count and (
            key[other] < key[below] or (key[other] == key[below] and item[other] < item[below])
        ):
            below = other
        if last_key < key[below] or (last_key == key[below] and last_item <= item[below]):
            break
        key[at], item[at] = key[below], item[below]
        at = below
    key[at], item[at] = last_key, last_item
    return count
