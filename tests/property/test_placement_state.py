"""Loads that are kept up to date while nodes move, against the fast model."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.partition import IN_A_WEIGHT
from mcm_passes.partitioning.fast_model import evaluate
from mcm_passes.partitioning.fast_periods import FastPeriods
from mcm_passes.solver.rule_graph import rule_graph
from mcm_passes.strategies.chip_window import chip_window
from mcm_passes.strategies.placement_loads import loads_of_state
from mcm_passes.strategies.placement_state import (
    empty_state,
    fill_state,
    place_node,
    placed_problem,
)
from tests.property.test_exact_search import connected_problems


@given(connected_problems(), st.randoms(use_true_random=False))
@settings(max_examples=250, deadline=None)
def test_after_any_moves_the_period_is_that_of_the_fast_model(problem, random):
    graph = rule_graph(problem)
    n = graph.num_nodes
    placed = placed_problem(problem, graph)
    state, loads = empty_state(placed), np.zeros((5, problem.num_chips))
    fast = FastPeriods(problem)
    chips = sorted(random.randrange(problem.num_chips) for _ in range(n))
    fill_state(placed, state, np.array(chips, np.int32))
    row = np.zeros(problem.num_units, np.int32)
    for _ in range(12):
        row[graph.units] = state.chip
        expected = fast(row)
        kept = all(
            state.chip[u] <= state.chip[v]
            for v in range(n)
            for u in graph.before_nodes[graph.before_ptr[v] : graph.before_ptr[v + 1]]
        )
        pinned = problem.pinned_chip
        at_home = all(pin < 0 or pin == row[u] for u, pin in enumerate(pinned.tolist()))
        if kept and at_home and not (pinned[problem.clonable] >= 0).any():
            found = loads_of_state(placed, state, loads)
            assert found == expected or abs(found - expected) <= 1e-9 * expected
        place_node(placed, state, random.randrange(n), random.randrange(problem.num_chips))
    # What was counted piece by piece is what a new count comes to.
    again = empty_state(placed)
    fill_state(placed, again, state.chip)
    assert np.array_equal(state.totals, again.totals)
    assert np.array_equal(state.copies, again.copies)
    assert np.array_equal(state.pairs, again.pairs)
    assert np.array_equal(state.size, again.size)
    assert np.allclose(state.busy_s, again.busy_s, rtol=0, atol=1e-15)


@given(connected_problems(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_a_window_of_chips_has_the_loads_that_it_has_in_the_whole(problem, random):
    if problem.routing != "relay" or problem.limits.host_io != "any":
        return
    if random.random() < 0.5:
        problem = problem.at_need()
    chip_of = np.array(
        sorted(random.randrange(problem.num_chips) for _ in range(problem.num_units)), np.int32
    )
    whole = evaluate(problem, chip_of)
    first = random.randrange(problem.num_chips)
    last = random.randrange(first, problem.num_chips)
    if not ((whole.chip_of >= first) & (whole.chip_of <= last) & ~problem.clonable).any():
        return
    window = chip_window(problem, chip_of, first, last)
    part = evaluate(window.problem, window.inside(chip_of))
    begin = first - window.first
    here, there = slice(begin, begin + last - first + 1), slice(first, last + 1)
    for name in ("chip_busy_s", "host_in_busy_s", "host_out_busy_s", "stream_busy_s"):
        assert np.allclose(getattr(part, name)[here], getattr(whole, name)[there], rtol=1e-12)
    assert np.array_equal(part.memory_bytes[here], whole.memory_bytes[there])
    links = slice(max(begin - 1, 0), begin + last - first)
    outer = slice(max(begin - 1, 0) + window.first, last)
    assert np.allclose(part.link_busy_s[links], whole.link_busy_s[outer], rtol=1e-12)
    views = dataclasses.replace(
        problem, tensor_alias=np.where(problem.tensor_producer < 0, -1, IN_A_WEIGHT)
    )
    cut = chip_window(views, chip_of, first, last).problem
    assert cut.tensor_alias.shape == cut.tensor_bytes.shape
    assert cut.tensor_touched.shape == cut.tensor_consumers.shape
    assert cut.weight_touched.shape == cut.weight_users.shape
    assert cut.one_kernel.shape == cut.compute_s.shape
    back = window.outside(chip_of, window.inside(chip_of))
    assert np.array_equal(back[~problem.clonable], chip_of[~problem.clonable])
