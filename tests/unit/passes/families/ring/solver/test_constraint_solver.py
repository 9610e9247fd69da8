"""The interactive solver, and SAMPLE and FIX on top of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mcm_compiler.placements.ring_rules import find_violations
from mcm_passes.families.ring.solver.batch import BatchSolver
from tests.oracles import constraint_solver
from tests.oracles.constraint_solver import (
    ConstraintSolver,
    NoPartitionError,
    SearchLimitError,
    WeightMemory,
    fix,
    sample,
)
from tests.oracles.valid_partitions import exact_sample

DRAWS = 1500
# Two branches between the same ends; under the strict rule they can use a chip each.
DIAMOND = (4, [(0, 1), (0, 2), (1, 3), (2, 3)])


def strict_partitions(graph):
    source = graph.after.owners.astype(np.int32)
    grid = np.indices((graph.num_chips,) * graph.num_nodes).reshape(graph.num_nodes, -1).T
    return [
        tuple(f.tolist())
        for f in grid.astype(np.int32)
        if not find_violations(
            f, source, graph.after.entries, num_chips=graph.num_chips, routing="strict"
        )
    ]


def assert_follows(drawn, exact):
    seen = Counter(map(tuple, drawn))
    assert set(seen) <= set(exact)
    expected = {f: p * len(drawn) for f, p in exact.items() if p * len(drawn) > 5}
    chi2 = sum((seen[f] - e) ** 2 / e for f, e in expected.items())
    assert chi2 < len(expected) + 5 * np.sqrt(2 * len(expected))


def test_domains_follow_from_decisions(graph_of):
    solver = ConstraintSolver(graph_of(4, [(0, 1), (1, 2), (2, 3)], 4))
    assert solver.get_domain(2) == (0, 1, 2, 3)
    assert solver.set_domain(1, (1, 3)) == 1
    assert solver.get_domain(1) == (1, 3)
    assert solver.get_domain(2) == (1, 2, 3)
    # Then chips 1 and 2 would be empty.
    assert solver.set_domain(1, (3,)) == 1
    assert solver.get_domain(1) == (1,)
    assert solver.set_domain(2, (1, 2, 3)) == 2
    assert solver.set_domain(3, (1, 2)) == 3
    assert solver.get_domain(2) == (1, 2)
    assert solver.get_domain(0) == (0, 1)
    with pytest.raises(ValueError, match="node 2 can go to chips"):
        solver.set_domain(2, (3,))


def test_an_impossible_decision_is_not_taken(graph_of):
    solver = ConstraintSolver(graph_of(3, [(0, 1), (1, 2)], 3))
    assert solver.set_domain(0, (1,)) == 0
    assert solver.get_domain(0) == (0, 2)
    assert solver.backtracks == 1


def test_decisions_are_taken_back_where_nothing_is_left(graph_of):
    """Without looking ahead the strict rule lets decisions pass that only later ones refute."""
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 4)
    rng = np.random.default_rng(3)
    solver = ConstraintSolver(graph, "strict", look_ahead_steps=0)
    went_back = 0
    for _ in range(40):
        solver.reset()
        index = 0
        while index < 5:
            u = (4, 0, 2, 1, 3)[index]
            domain = solver.get_domain(u)
            following = solver.set_domain(u, (int(rng.choice(domain)),))
            went_back += following < index
            index = following
        found = tuple(solver.get_domain(u)[0] for u in range(5))
        assert found in strict_partitions(graph)
    assert went_back > 0


def test_no_partition_is_told(graph_of):
    """Without looking ahead that shows once every decision has been taken back."""
    graph = graph_of(3, [(0, 1), (1, 2)], 3)
    too_small = WeightMemory(
        np.array([3]), np.array([0, 1]), np.array([1], np.int32), np.full(3, 2)
    )
    solver = ConstraintSolver(graph, "relay", too_small, look_ahead_steps=0)
    with pytest.raises(NoPartitionError):
        sample(solver, np.ones((3, 3)), np.arange(3), np.random.default_rng(1))
    with pytest.raises(NoPartitionError):
        ConstraintSolver(graph, "relay", too_small)


def test_the_search_admits_that_it_gave_up(graph_of, monkeypatch):
    monkeypatch.setattr(constraint_solver, "MAX_BACKTRACKS", 0)
    solver = ConstraintSolver(graph_of(*DIAMOND, 4), "strict")
    with pytest.raises(SearchLimitError):
        sample(solver, np.ones((4, 4)), np.arange(4), np.random.default_rng(1))


def test_sample_under_the_whole_strict_rule(graph_of):
    graph = graph_of(*DIAMOND, 4)
    partitions = strict_partitions(graph)
    assert (0, 1, 2, 3) in partitions  # which no chain of neighbours is
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.2, 1.0, (4, 4))
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        solver = ConstraintSolver(graph, "strict")
        drawn = [
            tuple(sample(solver, weights, np.array(order), rng).tolist()) for _ in range(DRAWS)
        ]
        assert_follows(drawn, exact_sample(partitions, order, weights))


def test_the_batch_has_the_distribution_of_the_reference(graph_of):
    graph = graph_of(5, [(0, 2), (1, 2), (2, 4), (1, 3)], 3)
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.2, 1.0, (5, 3))
    order = np.array([2, 0, 4, 3, 1], np.int32)
    wish = np.array([1, 0, 0, 2, 2], np.int32)
    batch = BatchSolver.of(graph)
    many = 40 * DRAWS
    fixed = batch.fix(rng, np.tile(wish, (many, 1)), weights.astype(np.float32), order)
    sampled = batch.sample(rng, many, weights.astype(np.float32), order)
    solver = ConstraintSolver(graph)
    for drawn, proposal in ((fixed, wish), (sampled, None)):
        exact = {f: k / many for f, k in Counter(map(tuple, drawn.tolist())).items()}
        slow = [tuple(fix(solver, proposal, weights, order, rng).tolist()) for _ in range(DRAWS)]
        rare = {f for f, p in exact.items() if p * DRAWS <= 5}
        assert set(slow) <= set(exact)
        assert_follows([f for f in slow if f not in rare], {f: exact[f] for f in exact})
