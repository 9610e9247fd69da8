"""Loads that are kept up to date while nodes move, against the fast model."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.arrays.kernels import entry_njit
from mcm_passes.families.ring.moves import placement_state
from mcm_passes.families.ring.moves.placed_problem import placed_problem
from mcm_passes.families.ring.moves.placement_state import (
    LAST_USED,
    LONG,
    breaks_triangle_rule,
    empty_state,
    move_unit,
    place_unit,
    weigh_memory,
)
from mcm_passes.families.ring.moves.walks import Walker
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.loads.device_memory import live_peaks
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.rule_graph import rule_graph
from tests.generators.partition_problems import connected_problems
from tests.property.test_walks import assert_same_loads


@entry_njit
def fill_state(placed, state, chip_of):
    placement_state.fill_state(placed, state, chip_of)


@entry_njit
def weigh(placed, state, room):
    for device in range(state.size.size):
        weigh_memory(placed, state, room, device, np.full(1, 1 << 40))


@entry_njit
def detours(state, room):
    return breaks_triangle_rule(state, room)


def period_of(placed, state):
    """The period by what is kept; infinite where a rule is broken."""
    chips = state.size.size
    last = int(state.counts[LAST_USED])
    if (state.size[:last] == 0).any():
        return np.inf
    if placed.machine.strict and detours(state, np.zeros((chips, chips), np.bool_)):
        return np.inf
    loads = state.loads
    amount, loads.peak[:] = loads.amount.copy(), 1 << 40
    weigh(placed, state, live_peaks(state.chip.size, chips))
    period_s = (loads.amount / placed.machine.rate).max()
    fits = (loads.streamed >= 0).all()
    loads.amount[:], loads.streamed[:] = amount, 0
    return period_s if fits else np.inf


@entry_njit
def place(placed, state, unit, to):
    place_unit(placed, state, unit, to)


@entry_njit
def take_all_back(placed, state, units, chips):
    for k in range(units.size - 1, -1, -1):
        move_unit(placed, state, units[k], chips[k], False)


PLACES = ("copies", "pairs", "size", "chip")
"""Arrays of a state that follow from chips alone."""


@given(connected_problems(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_moves_that_are_taken_back_leave_the_state_as_it_was(problem, random):
    placed = placed_problem(problem)
    state = empty_state(placed)
    chips = [random.randrange(problem.num_chips) for _ in range(problem.num_units)]
    fill_state(placed, state, np.array(chips, np.int32))
    before = {name: getattr(state, name).copy() for name in PLACES}
    units = rule_graph(problem).units.tolist()
    for _ in range(3):
        moved = np.array(random.sample(units, random.randint(1, len(units))), np.int32)
        old = state.chip[moved].copy()
        for unit in moved.tolist():
            place(placed, state, unit, random.randrange(problem.num_chips))
        take_all_back(placed, state, moved, old)
        for name, array in before.items():
            assert np.array_equal(getattr(state, name), array), name
        for c in range(problem.num_chips):
            row = state.members[c, : state.size[c]]
            assert sorted(row.tolist()) == [u for u in units if state.chip[u] == c]
            assert state.place[row].tolist() == list(range(row.size))


@given(connected_problems(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_a_walk_knows_its_loads_after_steps_that_it_rejects(problem, random):
    """Everything fits, so that walks begin anywhere; few of their steps are accepted."""
    limits = dataclasses.replace(problem.limits, sram_bytes=(10**9,) * problem.num_chips)
    problem = dataclasses.replace(problem, limits=limits, routing="relay")
    chips = np.sort([random.randrange(problem.num_chips) for _ in range(problem.num_units)])
    chip_of = np.unique(chips, return_inverse=True)[1].astype(np.int32)
    walker = Walker(problem, 5e-6)
    walk = walker.walk(chip_of, streams(np.random.default_rng(0), 1))
    for _ in range(4):
        walker.advance(walk, 10, random.choice([0.0, 1e-3]))
        again = empty_state(walker.placed)
        fill_state(walker.placed, again, walk.state.chip)
        assert_same_loads(walk.state.loads, again.loads)


@given(connected_problems(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_after_any_moves_the_period_is_that_of_the_fast_model(problem, random):
    graph = rule_graph(problem)
    placed = placed_problem(problem)
    state = empty_state(placed)
    fast = AnalyticPeriods(problem)
    chips = sorted(random.randrange(problem.num_chips) for _ in range(problem.num_units))
    fill_state(placed, state, np.array(chips, np.int32))
    for _ in range(12):
        row = np.where(problem.clonable, 0, state.chip).astype(np.int32)
        expected = fast(row)
        chip = row[graph.units]
        kept = all(chip[u] <= chip[v] for v in range(graph.num_nodes) for u in graph.before.row(v))
        pinned = problem.pinned_chip
        at_home = all(pin < 0 or pin == row[u] for u, pin in enumerate(pinned.tolist()))
        if kept and at_home and not (pinned[problem.clonable] >= 0).any():
            found = period_of(placed, state)
            assert found == expected or abs(found - expected) <= 1e-9 * expected
        unit = int(random.choice(graph.units.tolist()))
        place(placed, state, unit, random.randrange(problem.num_chips))
    # The counts of single moves add up to a new count.
    again = empty_state(placed)
    fill_state(placed, again, state.chip)
    assert_same_loads(state.loads, again.loads)
    for name in PLACES:
        assert np.array_equal(getattr(state, name), getattr(again, name)), name
    for k in (LAST_USED, LONG):
        assert state.counts[k] == again.counts[k]
