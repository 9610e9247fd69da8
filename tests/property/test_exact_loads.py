"""What exact search counts of a placement, against the plain reference evaluator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from mcm_compiler.placements.ring_rules import COLLECTED
from mcm_passes.families.ring.loads.window_costs import (
    PackingRatio,
    Window,
    cuts_of,
    window_cost,
    window_scratch,
)
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.families.ring.order_encoding.order_literals import (
    OrderLiterals,
    TriggerLiterals,
    WeightedSum,
)
from mcm_passes.mapping.loads.chip_demands import CROSSED, RECEIVED, SENT, chip_demands
from mcm_passes.mapping.loads.demand_table import Resource, Trigger, demand_table
from mcm_passes.mapping.problem.order_ideals import order_ideals
from mcm_passes.mapping.problem.rule_graph import rule_graph
from tests.generators.partition_problems import connected_problems
from tests.oracles.reference_loads import reference_loads


@st.composite
def placements(draw):
    """A problem, and chips of its nodes that only rise along their order."""
    # Search per chip asks that the host reaches every chip.
    problem = draw(connected_problems()).reached()
    n = rule_graph(problem).num_nodes
    return problem, np.array(sorted(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))))


def expected_loads(problem, graph, chips):
    chip_of = np.zeros(problem.num_units, np.int32)
    chip_of[graph.units] = chips
    return reference_loads(problem, demand_table(problem), chip_of)


def least(order, total):
    """The least value of a sum within a model."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    order.model.minimize(total.expression())
    assert solver.solve(order.model) == cp_model.OPTIMAL
    return round(solver.objective_value)


@given(placements())
@settings(max_examples=40)
def test_windows_cost_what_their_chips_load(drawn):
    problem, chips = drawn
    graph = rule_graph(problem)
    demands, loads = chip_demands(problem, graph.units), expected_loads(problem, graph, chips)
    block = problem.limits.buffer_alignment_bytes
    # The ideals at which the chips of the placement hand over; fewer than 64 nodes take one word.
    members = np.array(
        [[sum(1 << v for v, c in enumerate(chips) if c < k)] for k in range(chips.max() + 2)],
        np.uint64,
    )
    cuts, scratch = cuts_of(members, demands.tensors), window_scratch(demands)
    for c in range(chips.max() + 1):
        window = Window(c, c + 1, members[c + 1] & ~members[c])
        cost = window_cost(demands, cuts, window, scratch, c + 1, PackingRatio(5, 4))
        assert cost.seconds + cost.relay_s == pytest.approx(loads[Resource.BUSY, c])
        assert cost.link_bytes == loads[Resource.LINK, c]
        assert cost.weight_room * block == loads[Resource.WEIGHT, c]
        fixed = loads[Resource.HELD, c] + loads[Resource.WEIGHT, c]
        live = math.ceil(loads[Resource.LIVE, c] / block * 1.25)
        assert cost.room == fixed / block + live
        assert cost.in_bytes == loads[Resource.HOST_IN, c]
        assert cost.out_bytes == loads[Resource.HOST_OUT, c]
    assert not scratch.peaks.ends_at.any()


@given(connected_problems())
@settings(max_examples=40)
def test_what_crosses_an_ideal_is_made_within_and_needed_beyond(problem):
    problem = problem.reached().at_need()
    graph = rule_graph(problem)
    tensors = chip_demands(problem, graph.units).tensors
    ideals = order_ideals(graph, 500)
    if ideals is None:
        return
    cuts = cuts_of(ideals.members, tensors, ideals.smaller)
    found = [
        cuts.crossing[a:b].tolist()
        for a, b in zip(cuts.crossing_ptr, cuts.crossing_ptr[1:], strict=False)
    ]
    # Fewer than 64 nodes take one word; no link is before the first or behind the last of them.
    inside = [{v for v in range(graph.num_nodes) if int(row[0]) >> v & 1} for row in ideals.members]
    assert found == [[], *([*crossing(held, tensors)] for held in inside[1:-1]), []][: len(inside)]
    assert cuts.crossing_bytes.tolist() == [
        int(tensors.amount[row, CROSSED].sum()) for row in found
    ]


def crossing(held, tensors):
    """The tensors that are made in a set of nodes, or by the host, and needed beyond it."""
    for t, (maker, kind) in enumerate(zip(tensors.producer, tensors.kind, strict=True)):
        beyond = not set(tensors.readers.row(t).tolist()) <= held
        if (maker < 0 or int(maker) in held) and (beyond or kind & COLLECTED):
            yield t


@given(placements())
@settings(max_examples=25)
def test_literals_of_triggers_hold_where_demands_count(drawn):
    problem, chips = drawn
    graph = rule_graph(problem)
    demands, loads = chip_demands(problem, graph.units), expected_loads(problem, graph, chips)
    block = problem.limits.buffer_alignment_bytes
    nodes, items, tensors = demands.nodes, demands.items, demands.tensors
    fixed = chips.astype(np.int32)
    order = OrderLiterals(graph, demands, ChipWindows(fixed, fixed))
    literals = TriggerLiterals(order, demands)
    # Seconds as whole nanoseconds, which all of these are.
    work, clones, relays, copies = (
        np.rint(1e9 * seconds).astype(np.int64).tolist()
        for seconds in (nodes.work_s, items.busy_s, tensors.passed_s, tensors.copied_s)
    )
    for c in range(problem.num_chips):
        busy, link, held, weights = (WeightedSum() for _ in range(4))
        literals.add_all(
            c, (busy, Trigger.MADE, work), (held, Trigger.MADE, nodes.out_room.tolist())
        )
        literals.add_all(
            c,
            (busy, Trigger.READ, clones),
            (held, Trigger.READ, items.held.tolist()),
            (weights, Trigger.READ, items.weight.tolist()),
        )
        literals.add_all(
            c,
            (busy, Trigger.PASSED, relays),
            (busy, Trigger.COPIED, copies),
            (link, Trigger.CROSSED, tensors.amount[:, CROSSED].tolist()),
            (held, Trigger.RECEIVED, tensors.amount[:, RECEIVED].tolist()),
            (held, Trigger.SENT, tensors.amount[:, SENT].tolist()),
        )
        assert least(order, busy) == pytest.approx(1e9 * loads[Resource.BUSY, c])
        assert least(order, link) == loads[Resource.LINK, c]
        assert least(order, held) * block == loads[Resource.HELD, c]
        assert least(order, weights) * block == loads[Resource.WEIGHT, c]
