"""The compiled rule test says yes exactly where the rules of the ring find nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_compiler.placements.ring_rules import find_violations


@st.composite
def placements(draw, max_chips):
    """Edges of a random graph and a placement, close to valid: units by chip with a few moved."""
    num_units = draw(st.integers(1, 14))
    num_chips = draw(st.integers(1, max_chips))
    pairs = st.tuples(st.integers(0, num_units - 1), st.integers(0, num_units - 1))
    edges = [(min(e), max(e)) for e in draw(st.lists(pairs, max_size=20)) if e[0] != e[1]]
    steps = draw(st.lists(st.integers(0, 1), min_size=num_units, max_size=num_units))
    chip_of = np.cumsum([0, *steps[1:]]).astype(np.int32)
    moved = st.tuples(st.integers(0, num_units - 1), st.integers(-1, num_chips))
    for unit, chip in draw(st.lists(moved, max_size=2)):
        chip_of[unit] = chip
    return num_chips, np.array(edges, np.int32).reshape(-1, 2), chip_of


def broken(edges, chip_of, num_chips, strict, clone_row=None, pinned=None):
    none = np.full(len(chip_of), -1, np.int32)
    return breaks_rule(
        none if clone_row is None else clone_row,
        none if pinned is None else pinned,
        np.ascontiguousarray(edges[:, 0]),
        np.ascontiguousarray(edges[:, 1]),
        chip_of,
        num_chips,
        strict,
    )


@pytest.mark.parametrize("routing", ["relay", "strict"])
@given(placement=placements(max_chips=6))
@settings(max_examples=300)
def test_agrees_with_the_rules(routing, placement):
    num_chips, edges, chip_of = placement
    found = find_violations(chip_of, edges[:, 0], edges[:, 1], num_chips=num_chips, routing=routing)
    assert broken(edges, chip_of, num_chips, routing == "strict") == bool(found)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_agrees_on_rings_of_many_chips(seed):
    rng = np.random.default_rng(seed)
    num_chips = 150
    chip_of = np.sort(rng.integers(0, num_chips, 200)).astype(np.int32)
    chip_of = np.unique(chip_of, return_inverse=True)[1].astype(np.int32)
    source = rng.integers(0, 200, 12)
    edges = np.stack([source, np.minimum(source + rng.integers(0, 90, 12), 199)], axis=1)
    edges = edges.astype(np.int32)
    found = find_violations(
        chip_of, edges[:, 0], edges[:, 1], num_chips=num_chips, routing="strict"
    )
    assert broken(edges, chip_of, num_chips, True) == bool(found)


def test_clonable_units_are_not_looked_at():
    edges = np.zeros((0, 2), np.int32)
    cloned = np.array([-1, 0], np.int32)
    assert not broken(edges, np.array([0, 77], np.int32), 2, True, cloned)


def test_a_pin_that_is_not_kept_breaks_a_rule():
    edges = np.zeros((0, 2), np.int32)
    pinned = np.array([-1, 0], np.int32)
    assert broken(edges, np.array([0, 1], np.int32), 2, False, pinned=pinned)
    assert not broken(edges, np.array([1, 0], np.int32), 2, False, pinned=pinned)
