"""The packing bound against brute force, and what it sees that other bounds do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_passes.families.ring.exact.packing_bound import PackedWindows, packing_bound, weight_runs
from mcm_passes.mapping.bounds.bounds import lower_bound, total_work
from mcm_passes.mapping.bounds.work_around import work_around
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.rule_graph import rule_graph
from tests.generators.packing_cases import bound_of, steps
from tests.generators.partition_problems import connected_problems, make_problem
from tests.oracles.best_period import best_period


@given(connected_problems(6))
@settings(max_examples=100)
def test_no_partition_is_faster_than_the_bound(problem):
    best = best_period(problem)
    assert bound_of(problem).seconds <= best * (1.0 + 1e-9)


@given(connected_problems(6))
@settings(max_examples=60)
def test_windows_hold_every_partition_within_the_period(problem):
    graph = rule_graph(problem)
    n, chips = graph.num_nodes, problem.num_chips
    packed = PackedWindows(problem)
    for code in range(chips**n):
        row = np.zeros(problem.num_units, np.int32)
        row[graph.units] = [code // chips**k % chips for k in range(n)]
        result = evaluate(problem, row)
        if result.valid and code % 3 == 0:
            windows = packed.at(result.period_s)
            chip = row[graph.units]
            assert (windows.low <= chip).all()
            assert (chip <= windows.high).all()


@given(connected_problems(8), st.floats(0.8, 1.5), st.floats(1.01, 2.0))
@settings(max_examples=60)
def test_windows_are_the_same_from_those_of_a_longer_period_on(problem, share, longer):
    packed = PackedWindows(problem)
    period_s = share * lower_bound(problem).seconds
    wider, whole = packed.at(longer * period_s), packed.at(period_s)
    assert not wider.empty or whole.empty
    if not wider.empty:
        found = packed.at(period_s, wider)
        assert found.empty == whole.empty
        if not whole.empty:
            np.testing.assert_array_equal(found, whole)


@given(st.integers(2, 5), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_runs_count_at_most_one_gap_too_much_per_run(count, layers, random):
    problem = steps(count, layers, sram=10**6)
    graph = rule_graph(problem)
    runs = weight_runs(problem, work_around(problem))
    assert len(runs.users) == layers
    chip = np.array(
        sorted(random.randrange(problem.num_chips) for _ in range(graph.num_nodes)), np.int32
    )
    for c in range(problem.num_chips):
        held = [k for k, users in enumerate(runs.users) if (chip[users] == c).any()]
        counted = float(runs.work_s[chip == c].sum())
        busy = float(problem.compute_s[graph.units][chip == c].sum())
        assert counted <= busy + float(runs.gap_s[held].sum()) + 1e-15


def test_units_that_are_not_divided_leave_gaps():
    """26 small units in a row, then two rows of large ones: three fill a chip at 12, not below."""
    edges = [(u, u + 1) for u in range(33) if u != 29] + [(25, 30)]
    problem = make_problem([1.0] * 26 + [4.0] * 8, edges, chips=5)
    known_s = total_work(problem).seconds
    assert known_s < 11.61e-6
    found = packing_bound(problem, known_s, 20e-6)
    assert found.proof == "packed_windows"
    assert 11.99e-6 < found.seconds <= 12e-6
    assert "not divided" in found.argument


@pytest.mark.parametrize(("weight", "least_us"), [(1100, 17.99), (300, 13.0)])
def test_weights_that_do_not_fit_together_raise_the_bound(weight, least_us):
    """Where a chip holds one weight only, all steps of some recurrence are on one chip."""
    problem = steps(4, 3, sram=2000, weight=weight)
    known = lower_bound(problem).seconds
    found = max(known, bound_of(problem, 1.0).seconds)
    assert least_us * 1e-6 < found <= 18e-6
    if weight == 300:
        assert found == known


def test_nothing_is_claimed_beyond_a_known_partition():
    problem = steps(4, 3, sram=2000, weight=1100)
    found = packing_bound(problem, 14e-6, 15e-6)
    assert found.seconds <= 15e-6
    assert packing_bound(problem, 14e-6, 13e-6).seconds == 0.0


def test_pins_may_leave_the_last_chips_empty_where_weights_are_streamed():
    """What runs of units with one weight may save is told of all chips, whichever are in use."""
    problem = make_problem(
        [1, 1, 1], [(0, 1), (1, 2)], chips=3, weights=[(1, [0, 2])], stream=1e8, pins=[(2, 1)]
    )
    windows = PackedWindows(problem).at(3e-6)
    assert windows.high.tolist() == [1, 1, 1]
    assert packing_bound(problem, 1e-6, 3e-6).seconds <= 2e-6 * (1 + 1e-9)
