from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.checking.memory_check import overlapping_buffers
from mcm_compiler.contracts.program import Buffer
from mcm_hardware.memory.offset_assignment import plan_offsets, sweep_offsets

lifetimes = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 15), st.integers(0, 8)), max_size=40
)


def collide(a: Buffer, b: Buffer) -> bool:
    in_time = a.first <= b.last and b.first <= a.last
    in_space = a.address < b.address + b.size_bytes and b.address < a.address + a.size_bytes
    return in_time and in_space and a.size_bytes > 0 and b.size_bytes > 0


def pairs(buffers: list[Buffer]) -> list[tuple[str, str]]:
    return [
        (a.name, b.name) for i, a in enumerate(buffers) for b in buffers[i + 1 :] if collide(a, b)
    ]


@given(lifetimes)
@settings(max_examples=200)
def test_planned_buffers_never_collide_and_reach_no_higher_than_needed(lives):
    sizes = np.array([64 * size for size, _, _ in lives], np.int64)
    first = np.array([start for _, start, _ in lives], np.int64)
    last = first + np.array([length for _, _, length in lives], np.int64)
    by_size = np.argsort(-sizes, kind="stable")
    for offsets, high in (
        plan_offsets(sizes, first, last, 128),
        sweep_offsets(sizes, first, last, by_size, 128),
    ):
        planned = as_buffers(offsets, sizes, first, last)
        assert pairs(planned) == []
        assert overlapping_buffers(planned) == []
        assert all(b.address >= 128 and b.address % 64 == 0 for b in planned)
        assert high == max((b.address + b.size_bytes for b in planned if b.size_bytes), default=128)
        assert most_live(planned) <= high - 128 <= int(sizes.sum())


def test_ten_thousand_random_plans_have_no_overlap_and_stay_near_the_bound():
    rng = np.random.default_rng(20220829)
    ratios: list[float] = []
    for _ in range(10_000):
        count, steps = int(rng.integers(1, 24)), int(rng.integers(1, 24))
        sizes = 64 * np.ceil(rng.lognormal(2, 1, count)).astype(np.int64)
        first = rng.integers(0, steps, count)
        last = np.minimum(first + rng.integers(0, 1 + steps // 2, count), steps)
        offsets, high = plan_offsets(sizes, first, last, 0)
        planned = as_buffers(offsets, sizes, first, last)
        assert overlapping_buffers(planned) == []
        assert high == max(b.address + b.size_bytes for b in planned)
        ratios.append(high / most_live(planned))
    assert min(ratios) >= 1
    assert np.mean(ratios) < 1.002
    assert np.mean(np.array(ratios) <= 1.02) > 0.98


def test_plans_are_better_than_a_sweep_over_time():
    rng = np.random.default_rng(5)
    planned_top, swept_top, bound = 0, 0, 0
    for _ in range(20):
        sizes = 64 * rng.integers(1, 100, 120)
        first = rng.integers(0, 60, 120)
        last = first + rng.integers(0, 20, 120)
        offsets, high = plan_offsets(sizes, first, last, 0)
        by_size = np.argsort(-sizes, kind="stable")
        planned_top += high
        swept_top += sweep_offsets(sizes, first, last, by_size, 0)[1]
        bound += most_live(as_buffers(offsets, sizes, first, last))
    assert planned_top < 1.02 * bound
    assert swept_top > 1.05 * bound


def test_a_hundred_thousand_buffers_that_all_meet_are_swept():
    # Pairs that all live at once would take the greedy orders 5 * 10^9 steps.
    count = 100_000
    sizes = np.full(count, 64)
    first = np.arange(count)
    last = np.full(count, count)
    offsets, high = plan_offsets(sizes, first, last, 0)
    assert high == 64 * count
    assert len(np.unique(offsets)) == count


def as_buffers(offsets, sizes, first, last) -> list[Buffer]:
    rows = zip(offsets.tolist(), sizes.tolist(), first.tolist(), last.tolist(), strict=True)
    return [Buffer(str(i), "activation", *row) for i, row in enumerate(rows)]


def most_live(planned: list[Buffer]) -> int:
    return max(
        (sum(b.size_bytes for b in planned if b.first <= a.first <= b.last) for a in planned),
        default=0,
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(0, 10), st.integers(0, 4)),
        max_size=12,
    )
)
@settings(max_examples=300)
def test_the_check_finds_a_collision_exactly_where_there_is_one(rows):
    buffers = [
        Buffer(str(i), "activation", address, size, first, first + length)
        for i, (address, size, first, length) in enumerate(rows)
    ]
    found = overlapping_buffers(buffers)
    truth = {frozenset(pair) for pair in pairs(buffers)}
    assert bool(found) == bool(truth)
    assert {frozenset((a.name, b.name)) for a, b in found} <= truth
