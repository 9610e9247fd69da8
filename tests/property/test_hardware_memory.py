from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.artifact.memory_check import overlapping_buffers
from mcm_compiler.program import Buffer
from mcm_hardware.offset_assignment import assign_offsets

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
@settings(max_examples=200, deadline=None)
def test_planned_buffers_never_collide_and_reach_no_higher_than_needed(lives):
    sizes = np.array([64 * size for size, _, _ in lives], np.int64)
    first = np.array([start for _, start, _ in lives], np.int64)
    last = first + np.array([length for _, _, length in lives], np.int64)
    offsets = assign_offsets(sizes, first, last, 128)
    planned = [
        Buffer(str(i), "activation", int(o), int(s), int(f), int(t))
        for i, (o, s, f, t) in enumerate(zip(offsets, sizes, first, last, strict=True))
    ]
    assert pairs(planned) == []
    assert overlapping_buffers(planned) == []
    assert all(b.address >= 128 and b.address % 64 == 0 for b in planned)
    top = max((b.address + b.size_bytes for b in planned if b.size_bytes), default=128) - 128
    live = [sum(b.size_bytes for b in planned if b.first <= t <= b.last) for t in range(24)]
    assert max(live, default=0) <= top <= int(sizes.sum())


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(0, 10), st.integers(0, 4)),
        max_size=12,
    )
)
@settings(max_examples=300, deadline=None)
def test_the_check_finds_a_collision_exactly_where_there_is_one(rows):
    buffers = [
        Buffer(str(i), "activation", address, size, first, first + length)
        for i, (address, size, first, length) in enumerate(rows)
    ]
    found = overlapping_buffers(buffers)
    truth = {frozenset(pair) for pair in pairs(buffers)}
    assert bool(found) == bool(truth)
    assert {frozenset((a.name, b.name)) for a, b in found} <= truth
