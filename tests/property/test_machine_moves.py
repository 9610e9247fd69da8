"""Loads on machines that are no rings, kept up to date while units and devices change places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.families.ring.moves.placed_problem import PlacedProblem, placed_problem
from mcm_passes.families.ring.moves.placement_state import (
    FIRST,
    HELD,
    LAST,
    WEIGHT,
    PlacementState,
    begin_step,
    copy_changed,
    empty_loads,
    empty_state,
    exchange_devices,
    move_unit,
    place_unit,
    swap_devices,
)
from mcm_passes.families.ring.moves.walks import Walker
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.loads.problem_arrays import problem_arrays
from mcm_passes.mapping.machine.device_order import DeviceOrder
from mcm_passes.mapping.machine.evaluation import MachineModel
from mcm_passes.mapping.models import evaluate
from tests.generators.chip_kinds import with_kinds
from tests.generators.partition_problems import forward_placement, make_problem
from tests.generators.random_machines import placed_on_machines
from tests.generators.small_machines import machine_case
from tests.property.test_placement_state import fill_state

MOVE, MOVE_BACK, SWAP, SWAP_BACK, KEEP = range(5)


@entry_njit
def change(p, s, before, action, units, places):
    """One kernel for all changes: what Python passes takes longer to compile than each of them."""
    if action in (MOVE, SWAP):
        begin_step(s)
    for k in range(units.size):
        if action == MOVE:
            place_unit(p, s, units[k], places[k])
        elif action == MOVE_BACK:
            back = units.size - 1 - k
            move_unit(p, s, units[back], places[back], False)
    if action == SWAP:
        swap_devices(p, s, places[0], places[1])
    elif action == SWAP_BACK:
        exchange_devices(s, places[0], places[1])
    to, of = (before, s.loads) if action == KEEP else (s.loads, before)
    if action in (MOVE_BACK, SWAP_BACK, KEEP):
        copy_changed(p, s, to, of)


NO_UNITS = np.zeros(0, np.int32)


def test_a_step_on_a_ring_changes_no_chip_that_its_tensors_do_not_pass():
    edges = [(u, u + 1) for u in range(7)]
    problem = make_problem([1] * 8, [*edges, (3, 6)], chips=8)
    placed = placed_problem(problem)
    state = empty_state(placed)
    fill_state(placed, state, np.arange(8, dtype=np.int32))
    # In between unit 4 reads from a later chip, and unit 6 from an earlier one.
    moved, to = np.array([3, 4], np.int32), np.array([5, 5], np.int32)
    change(placed, state, empty_loads(placed), MOVE, moved, to)
    assert [state.counts[FIRST], state.counts[LAST]] == [2, 6]
    assert_loads_of(problem, placed, state)


@pytest.mark.parametrize("kinds", [1, 2, 3])
@pytest.mark.parametrize("prepare", [placed_problem, problem_arrays])
def test_kernels_are_compiled_once_for_rings_and_for_machines_of_any_kinds(prepare, kinds):
    ring = make_problem([1] * 4, [(0, 1), (1, 2), (2, 3)], chips=4, clonable=[0])
    assert typeof(prepare(with_kinds(ring, 0, kinds))) == typeof(prepare(ring))
    assert typeof(prepare(machine_case(0, kinds).problem)) == typeof(prepare(ring))


def assert_loads_of(problem, placed: PlacedProblem, state: PlacementState) -> None:
    """The loads of a state are those of the evaluation of its placement on devices."""
    device_of = state.device[state.chip].astype(np.int32)
    found = MachineModel.of(problem).loads(device_of)
    block = problem.limits.buffer_alignment_bytes
    blocks, amount = state.loads.blocks * block, state.loads.amount
    assert amount[problem.machine.num_devices :].tolist() == found.crossed.tolist()
    assert blocks[HELD].tolist() == found.held.tolist()
    assert blocks[WEIGHT].tolist() == found.weights.tolist()
    busy_s = amount[: problem.num_chips]
    np.testing.assert_allclose(busy_s, found.busy_s, rtol=0, atol=1e-15)


@given(placed_on_machines(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_loads_are_those_of_the_evaluation_after_any_moves(problem, random):
    placed = placed_problem(problem)
    state, kept = empty_state(placed), empty_loads(placed)
    state.device[:] = random.sample(range(problem.num_chips), problem.num_chips)
    fill_state(placed, state, forward_placement(problem, random))
    change(placed, state, kept, KEEP, NO_UNITS, NO_UNITS)
    assert_loads_of(problem, placed, state)
    source, target = dependency_edges(problem)
    units = np.flatnonzero(~problem.clonable).tolist()
    for _ in range(6):
        moved = np.array(random.sample(units, random.randint(1, len(units))), np.int32)
        old, chip = state.chip[moved].copy(), state.chip.copy()
        for k, unit in enumerate(moved.tolist()):
            low = max([0, *chip[source[target == unit]].tolist()])
            high = min([problem.num_chips - 1, *chip[target[source == unit]].tolist()])
            chip[unit] = random.randint(low, high)
            assert moved[k] == unit
        change(placed, state, kept, MOVE, moved, chip[moved])
        assert_loads_of(problem, placed, state)
        if random.random() < 0.5:
            change(placed, state, kept, MOVE_BACK, moved, old)
            assert all(map(np.array_equal, state.loads, kept))
            assert_loads_of(problem, placed, state)
        else:
            change(placed, state, kept, KEEP, NO_UNITS, NO_UNITS)
        if problem.machine.relays or problem.num_chips < 2:
            continue
        pair = np.array(random.sample(range(problem.num_chips), 2), np.int32)
        change(placed, state, kept, SWAP, NO_UNITS, pair)
        assert_loads_of(problem, placed, state)
        if random.random() < 0.5:
            change(placed, state, kept, SWAP_BACK, NO_UNITS, pair)
            assert all(map(np.array_equal, state.loads, kept))
            assert_loads_of(problem, placed, state)
        else:
            change(placed, state, kept, KEEP, NO_UNITS, NO_UNITS)


@given(placed_on_machines(), st.randoms(use_true_random=False), st.integers(1, 200))
@settings(max_examples=40)
def test_a_walk_over_units_and_devices_finds_valid_placements_that_cost_what_it_says(
    problem, random, steps
):
    order = DeviceOrder(np.array(random.sample(range(3), 3)))
    start = order.devices(forward_placement(problem, random))
    cost = evaluate(problem, start)
    walker = Walker(problem, max(cost.period_s, 1e-9), memory=20)
    walk = walker.walk(start, streams(np.random.default_rng(0), 1))
    assert np.isfinite(walk.best_s[0]) == cost.valid
    for heat in (0.0, 0.3):
        walker.advance(walk, steps, heat)
        assert_loads_of(problem, walker.placed, _without_streams(walker.placed, walk))
        best = evaluate(problem, walker.best(walk))
        # Engines on the way may close a circle at the start, or belong to chips that are not used.
        relays = problem.machine.relays
        broken = {"memory", "acyclic", "unreachable"} if relays else {"memory"}
        assert {v.rule for v in best.violations} <= broken
        if np.isfinite(walk.best_s[0]):
            assert best.valid
            np.testing.assert_allclose(walk.best_s[0], best.period_s, rtol=1e-9)


def _without_streams(placed: PlacedProblem, walk) -> PlacementState:
    """The state of a walk, whose channels carry streamed weights no more."""
    fresh = empty_state(placed)
    fresh.device[:] = walk.state.device
    fill_state(placed, fresh, walk.state.chip)
    routes = placed.machine.routes
    streamed = np.zeros_like(fresh.loads.amount)
    for device, blocks in enumerate(walk.state.loads.streamed.tolist()):
        row = routes.num_devices * (routes.num_devices + 2) + device
        crossed = routes.num_devices + routes.channels[routes.begin[row] : routes.end[row]]
        streamed[crossed] += max(blocks, 0) * placed.machine.block_bytes
    channels = slice(routes.num_devices, None)
    carried = (fresh.loads.amount + streamed)[channels]
    assert carried.tolist() == walk.state.loads.amount[channels].tolist()
    return fresh
