"""The nearest valid partition against brute force over all of them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcm_passes.families.ring.placement_constraints.nearest import (
    moved_units,
    nearest_partition,
    nearest_valid,
)
from mcm_passes.mapping.machine.evaluation import evaluate
from tests.generators.partition_problems import connected_problems


def fewest_moves(problem, wanted):
    """Over all valid partitions, or None where there is none."""
    fixed = np.flatnonzero(~problem.clonable)
    best = None
    for choice in itertools.product(range(problem.num_chips), repeat=fixed.size):
        chip_of = np.zeros(problem.num_units, np.int32)
        chip_of[fixed] = choice
        moves = moved_units(problem, wanted, chip_of).size
        if (best is None or moves < best) and evaluate(problem, chip_of).valid:
            best = moves
    return best


@given(connected_problems(max_units=5), st.data())
@settings(max_examples=20)
def test_none_is_nearer(problem, data):
    # Chips that do not exist are wished for, too.
    chips = st.integers(-1, problem.num_chips)
    n = problem.num_units
    wanted = np.array(data.draw(st.lists(chips, min_size=n, max_size=n)), np.int32)
    best = fewest_moves(problem, wanted)
    found = nearest_valid(problem, wanted, np.random.default_rng(0))
    assert found.proven
    if best is None:
        assert found.chip_of is None
        return
    assert evaluate(problem, found.chip_of).valid
    assert moved_units(problem, wanted, found.chip_of).size == best


@given(connected_problems(max_units=5))
@settings(max_examples=10)
def test_what_is_known_is_kept_where_there_is_no_effort(problem):
    known = nearest_valid(problem, np.zeros(problem.num_units, np.int32), np.random.default_rng(0))
    assume(known.chip_of is not None)
    wanted = np.full(problem.num_units, problem.num_chips - 1, np.int32)
    found = nearest_partition(problem, wanted, known.chip_of, effort_s=1e-9)
    assert evaluate(problem, found.chip_of).valid
