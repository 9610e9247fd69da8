from __future__ import annotations

import numpy as np
import pytest

from mcm_hardware.memory import offset_assignment
from mcm_hardware.memory.offset_assignment import plan_offsets, sweep_offsets


def lowest_gaps(sizes: list[int], first: list[int], last: list[int], base: int) -> list[int]:
    """Each buffer, the largest first, into the lowest gap between those placed that it meets."""
    offsets = [base] * len(sizes)
    placed: list[int] = []
    for item in sorted(range(len(sizes)), key=lambda i: (-sizes[i], first[i], i)):
        if sizes[item] == 0:
            continue
        end = base
        met = [o for o in placed if first[o] <= last[item] and first[item] <= last[o]]
        for other in sorted(met, key=lambda o: offsets[o]):
            if offsets[other] - end >= sizes[item]:
                break
            end = max(end, offsets[other] + sizes[other])
        offsets[item] = end
        placed.append(item)
    return offsets


def tree_steps(sizes: list[int], first: list[int], last: list[int]) -> int:
    """Nodes that the greedy order by size visits, told by walking through its tree as it does."""
    count = len(sizes)
    leaves = 1
    while leaves < count:
        leaves *= 2
    by_first = sorted(range(count), key=lambda i: (first[i], i))
    latest = [-1] * (2 * leaves)
    steps = 0
    for item in sorted(range(count), key=lambda i: (-sizes[i], first[i], i)):
        if sizes[item] == 0:
            continue
        stack = [1]
        while stack:
            node = stack.pop()
            steps += 1
            if latest[node] < first[item] or node >= leaves:
                continue
            right = 2 * node + 1
            while right < leaves:
                right *= 2
            if right - leaves < count and first[by_first[right - leaves]] <= last[item]:
                stack.append(2 * node + 1)
            stack.append(2 * node)
        node = leaves + by_first.index(item)
        while node > 0:
            latest[node] = max(latest[node], last[item])
            node //= 2
    return steps


def all_live_at_once(rng: np.random.Generator) -> tuple[list[int], list[int], list[int]]:
    count = int(rng.integers(1, 40))
    sizes = 64 * rng.integers(0, 5, count)
    first = rng.integers(0, 20, count)
    last = 19 + rng.integers(0, 20, count)
    return sizes.tolist(), first.tolist(), last.tolist()


def test_buffers_that_all_live_at_once_lie_as_the_greedy_order_places_them():
    rng = np.random.default_rng(3)
    for _ in range(300):
        sizes, first, last = all_live_at_once(rng)
        offsets, high = plan_offsets(np.array(sizes), np.array(first), np.array(last), 128)
        assert offsets.tolist() == lowest_gaps(sizes, first, last, 128)
        assert high == 128 + sum(sizes)


def test_others_too_where_the_greedy_order_meets_the_bound():
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(300):
        count = int(rng.integers(2, 12))
        sizes, first = 64 * rng.integers(0, 5, count), rng.integers(0, 20, count)
        last = first + rng.integers(0, 8, count)
        offsets, high = plan_offsets(sizes, first, last, 0)
        greedy = lowest_gaps(sizes.tolist(), first.tolist(), last.tolist(), 0)
        if max(greedy + sizes) == offset_assignment.max_live_bytes(sizes, first, last):
            seen += 1
            assert offsets.tolist() == greedy
            assert high == max(greedy + sizes)
    assert seen > 50


def test_the_steps_of_a_stack_are_those_of_the_walk_through_the_tree():
    rng = np.random.default_rng(5)
    for _ in range(300):
        sizes, first, last = all_live_at_once(rng)
        by_first = np.argsort(first, kind="stable")
        by_size = by_first[np.argsort(-np.array(sizes)[by_first], kind="stable")]
        told = offset_assignment.steps_of_a_stack(by_size, np.array(sizes), by_first)
        assert told == tree_steps(sizes, first, last)


@pytest.mark.parametrize("count", [5_000, 8_000])
def test_so_many_that_the_greedy_orders_give_up_are_swept(count):
    rng = np.random.default_rng(count)
    sizes, first = 64 * rng.integers(1, 9, count), np.arange(count)
    last = np.full(count, count)
    by_size = np.argsort(-sizes, kind="stable")
    steps = offset_assignment.steps_of_a_stack(by_size, sizes, first)
    offsets, _ = plan_offsets(sizes, first, last, 0)
    swept = sweep_offsets(sizes, first, last, by_size, 0)[0].tolist()
    assert (offsets.tolist() == swept) == (steps > offset_assignment.MAX_STEPS) == (count > 7_000)
