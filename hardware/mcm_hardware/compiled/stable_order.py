"""Sorting by a key inside compiled kernels, where NumPy's functions take seconds to compile."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inner_njit
from mcm_compiler.arrays.types import Longs


@inner_njit
def ascending(order: Longs, key: Longs) -> Longs:
    """The entries of `order` by ascending `key[entry]`; equal ones stay as they stand.

    Merge sort from runs of one upwards.

    Args:
        order: `[m]`, indices into `key`.
        key: `[n]`.

    Returns:
        `[m]`, a new array.
    """
    count = len(order)
    source, target = order.copy(), np.empty(count, np.int64)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for at in range(low, high):
                if left < middle and (right >= high or key[source[left]] <= key[source[right]]):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@inner_njit
def numbered(count: int) -> Longs:
    """0, 1, ... `count` - 1."""
    numbers = np.empty(count, np.int64)
    for number in range(count):
        numbers[number] = number
    return numbers


@inner_njit
def negated(key: Longs) -> Longs:
    """`-key`, to sort descending."""
    opposite = np.empty(len(key), np.int64)
    for at in range(len(key)):
        opposite[at] = -key[at]
    return opposite
