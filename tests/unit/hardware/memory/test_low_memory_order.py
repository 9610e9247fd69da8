"""Orders of kernels: valid, never worse than the one given, and better where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from mcm_hardware.memory.low_memory_order import (
    live_ranges,
    low_memory_order,
    max_live_bytes,
    peak_of_order,
)

Value = tuple[int, int, tuple[int, ...], bool]
"""Size, writer, readers, kept."""


def arrays(num_kernels: int, values: Sequence[Value]) -> tuple[np.ndarray, ...]:
    """Arguments of `low_memory_order`; every reader depends on the writer."""
    after = [
        sorted({r for _, w, rs, _ in values if w == k for r in rs}) for k in range(num_kernels)
    ]
    return (
        np.cumsum([0, *map(len, after)]).astype(np.int64),
        np.array([k for row in after for k in row], np.int64),
        np.array([size for size, *_ in values], np.int64),
        np.array([writer for _, writer, _, _ in values], np.int64),
        np.cumsum([0, *(len(readers) for _, _, readers, _ in values)]).astype(np.int64),
        np.array([k for _, _, readers, _ in values for k in readers], np.int64),
        np.array([kept for *_, kept in values], np.bool_),
    )


def random_values(rng: np.random.Generator, num_kernels: int) -> list[Value]:
    values: list[Value] = []
    for kernel in range(num_kernels):
        later = np.arange(kernel + 1, num_kernels)
        count = min(len(later), int(rng.integers(0, 4)))
        readers = sorted(int(k) for k in rng.choice(later, count, replace=False))
        size = 64 * int(rng.integers(0, 20))
        values.append((size, kernel, tuple(readers), bool(rng.random() < 0.1)))
    return values


def peak(order: Sequence[int], values: Sequence[Value]) -> int:
    """Live bytes counted step by step."""
    place = {kernel: step for step, kernel in enumerate(order)}
    most = 0
    for step in range(len(order)):
        live = 0
        for size, writer, readers, kept in values:
            end = max(place[k] for k in (writer, *readers))
            live += size * (place[writer] <= step <= (len(order) - 1 if kept else end))
        most = max(most, live)
    return most


def is_valid(order: Sequence[int], values: Sequence[Value]) -> bool:
    place = {kernel: step for step, kernel in enumerate(order)}
    return all(place[w] < place[r] for _, w, readers, _ in values for r in readers)


@pytest.mark.parametrize("seed", range(40))
def test_orders_are_valid_and_never_worse_than_the_one_given(seed):
    rng = np.random.default_rng(seed)
    values = random_values(rng, 30)
    order = low_memory_order(*arrays(30, values)).tolist()
    assert sorted(order) == list(range(30))
    assert is_valid(order, values)
    assert peak(order, values) <= peak(range(30), values)


def test_some_orders_are_better_than_the_one_given_and_near_the_best():
    found, given, best = 0, 0, 0
    for seed in range(12):
        values = random_values(np.random.default_rng(100 + seed), 7)
        found += peak(low_memory_order(*arrays(7, values)).tolist(), values)
        given += peak(range(7), values)
        best += min(peak(o, values) for o in permutations(range(7)) if is_valid(o, values))
    assert best <= found < given
    assert found <= 1.02 * best


def test_two_branches_run_one_after_the_other():
    # Two branches that blow up and shrink, given step by step side by side.
    values = [
        (64, 0, (1, 2), False),
        (640, 1, (3,), False),
        (640, 2, (4,), False),
        (64, 3, (5,), False),
        (64, 4, (5,), False),
        (64, 5, (), False),
    ]
    order = low_memory_order(*arrays(6, values)).tolist()
    assert order in ([0, 2, 4, 1, 3, 5], [0, 1, 3, 2, 4, 5])
    assert (peak(range(6), values), peak(order, values)) == (1344, 768)


def test_a_tree_of_results_is_finished_branch_by_branch():
    # Seen from the end nothing tells the branches apart; from the start each frees its operand.
    values: list[Value] = [(640, 0, (1, 2, 3, 4), False)]
    values += [(640, kernel, (kernel + 4,), False) for kernel in range(1, 5)]
    values += [(0, kernel, (), False) for kernel in range(5, 9)]
    order = low_memory_order(*arrays(9, values)).tolist()
    assert (peak(range(9), values), peak(order, values)) == (5 * 640, 2 * 640)


def test_nothing_changes_where_nothing_can_be_gained():
    chain: list[Value] = [(64 * (k % 3 + 1), k, (k + 1,), False) for k in range(9)]
    assert low_memory_order(*arrays(10, chain)).tolist() == list(range(10))
    # Kernel 1 may run before kernel 0, which would not help.
    apart: list[Value] = [(64, 0, (2,), False), (64, 1, (2,), False)]
    assert low_memory_order(*arrays(3, apart)).tolist() == [0, 1, 2]


def test_kept_values_live_to_the_end():
    values: list[Value] = [(64, 0, (), True), (128, 1, (2,), False), (256, 2, (), False)]
    args = arrays(3, values)
    first, last = live_ranges(np.arange(3), *args[3:])
    assert first.tolist() == [0, 1, 2]
    assert last.tolist() == [2, 2, 2]
    assert max_live_bytes(args[2], first, last) == 448
    assert peak_of_order(np.arange(3), *args[2:]) == 448


def test_no_kernels_and_no_values():
    assert low_memory_order(*arrays(0, [])).tolist() == []
    assert low_memory_order(*arrays(2, [])).tolist() == [0, 1]


def test_a_hundred_thousand_kernels_of_one_chip_are_ordered():
    count = 100_000
    rng = np.random.default_rng(0)
    # Everything is read by everything near: many values wait for their last reader.
    readers = np.arange(count)[:, None] + rng.integers(1, 40, (count, 2))
    values: list[Value] = [
        (64 * int(size), kernel, tuple(sorted({int(r) for r in row if r < count})), False)
        for kernel, (size, row) in enumerate(zip(rng.integers(1, 50, count), readers, strict=True))
    ]
    succ = [list(readers) for _, _, readers, _ in values]
    ptr = np.cumsum([0, *map(len, succ)]).astype(np.int64)
    flat = np.array([k for row in succ for k in row], np.int64)
    size = np.array([v[0] for v in values], np.int64)
    kept = np.zeros(count, np.bool_)
    order = low_memory_order(ptr, flat, size, np.arange(count), ptr, flat, kept)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    assert np.all(place[np.repeat(np.arange(count), np.diff(ptr))] < place[flat])
