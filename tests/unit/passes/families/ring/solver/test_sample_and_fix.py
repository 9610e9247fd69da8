"""SAMPLE and FIX against enumeration, under the relay rule and where dependencies are short."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from mcm_passes.families.ring.solver.batch import BatchSolver
from tests.oracles.valid_partitions import exact_sample

DRAWS = 4000
RULES = pytest.mark.parametrize(("routing", "span"), [("relay", None), ("strict", 1)])


def connected(graphs, routing):
    """Under the strict rule parts of a graph are tied together, so only whole ones are complete."""

    def whole(graph):
        reached, n = {0}, graph.num_nodes
        for _ in range(n):
            for u in range(n):
                for v in graph.after.row(u).tolist():
                    if u in reached or v in reached:
                        reached |= {u, v}
        return len(reached) == n

    kept = [graph for graph in graphs if routing == "relay" or whole(graph)]
    assert len(kept) >= 8
    return kept


@RULES
def test_sample_has_the_distribution_of_the_algorithm(graphs, all_valid, routing, span):
    rng = np.random.default_rng(7)
    for graph in connected(graphs, routing):
        partitions = all_valid(graph, span)
        n = graph.num_nodes
        order = rng.permutation(n).astype(np.int32)
        weights = rng.uniform(0.2, 1.0, (n, 3)).astype(np.float32)
        exact = exact_sample(partitions, order, weights)
        drawn = BatchSolver.of(graph, routing).sample(
            rng, DRAWS, weights, np.tile(order, (DRAWS, 1))
        )
        seen = Counter(map(tuple, drawn.tolist()))
        assert set(seen) <= set(partitions)
        expected = {f: p * DRAWS for f, p in exact.items()}
        chi2 = sum((seen[f] - e) ** 2 / e for f, e in expected.items() if e > 5)
        cells = sum(e > 5 for e in expected.values())
        # Five standard deviations of a chi-squared variable.
        assert chi2 < cells + 5 * np.sqrt(2 * cells), graph


@RULES
def test_every_valid_partition_can_be_reached(graphs, all_valid, routing, span):
    rng = np.random.default_rng(8)
    for graph in connected(graphs, routing):
        partitions = all_valid(graph, span)
        proposals = np.array(partitions, np.int32)
        fixed = BatchSolver.of(graph, routing).fix(rng, proposals)
        # A valid proposal stays as it is, whatever the order of decisions.
        assert fixed.tolist() == proposals.tolist()


@RULES
def test_fix_and_sample_are_always_valid(graphs, all_valid, routing, span):
    rng = np.random.default_rng(9)
    for graph in connected(graphs, routing):
        partitions = set(all_valid(graph, span))
        solver = BatchSolver.of(graph, routing)
        proposals = rng.integers(0, 3, (500, graph.num_nodes)).astype(np.int32)
        assert set(map(tuple, solver.fix(rng, proposals).tolist())) <= partitions
        assert set(map(tuple, solver.sample(rng, 500).tolist())) <= partitions


def test_pins_are_kept_and_impossible_pins_are_told(graph_of, all_valid):
    rng = np.random.default_rng(1)
    chain = [(i, i + 1) for i in range(5)]
    graph = graph_of(6, chain, 4, {4: 2})
    drawn = BatchSolver.of(graph).sample(rng, 300)
    assert set(map(tuple, drawn.tolist())) <= set(all_valid(graph))
    assert (drawn[:, 4] == 2).all()
    hopeless = graph_of(6, chain, 4, {1: 3})
    assert all_valid(hopeless) == []
    assert (BatchSolver.of(hopeless).sample(rng, 3) == -1).all()


def test_the_answer_does_not_depend_on_threads(graphs, monkeypatch):
    solver = BatchSolver.of(graphs[0])
    answers = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(
            "mcm_compiler.processes.side_by_side.usable_cores", lambda cores=cores: cores
        )
        answers.append(solver.sample(np.random.default_rng(3), 64).tolist())
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("order", ["random", "topological", "reverse"])
def test_a_long_chain_in_any_order(graph_of, order):
    n, chips = 40, 36
    graph = graph_of(n, [(i, i + 1) for i in range(n - 1)], chips)
    orders = {
        "random": None,
        "topological": np.tile(np.arange(n, dtype=np.int32), (50, 1)),
        "reverse": np.tile(np.arange(n, dtype=np.int32)[::-1], (50, 1)),
    }[order]
    drawn = BatchSolver.of(graph).sample(np.random.default_rng(2), 50, orders=orders)
    steps = np.diff(drawn, axis=1)
    assert (drawn[:, 0] == 0).all()
    assert ((steps == 0) | (steps == 1)).all()


def test_more_chips_than_a_byte_counts(graph_of):
    n, chips = 180, 140
    graph = graph_of(n, [(i, i + 1) for i in range(n - 1)], chips, {n - 1: chips - 1})
    solver = BatchSolver.of(graph)
    rng = np.random.default_rng(4)
    along = np.arange(n, dtype=np.int32)
    wish = np.sort(rng.integers(0, chips, (8, n)).astype(np.int32), axis=1)
    for drawn in (solver.sample(rng, 8), solver.fix(rng, wish, orders=along)):
        assert (drawn[:, 0] == 0).all()
        assert (drawn[:, -1] == chips - 1).all()
        steps = np.diff(drawn, axis=1)
        assert ((steps == 0) | (steps == 1)).all()


def test_a_chip_passes_its_node_on_where_no_spare_one_is_left(graph_of, all_valid):
    """A star whose leaves are pinned but for one, so that one node has to serve in turn."""
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)]
    graph = graph_of(5, edges, 4, {4: 3})
    partitions = all_valid(graph)
    every = np.array(partitions, np.int32)
    rng = np.random.default_rng(8)
    solver = BatchSolver.of(graph)
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 3, 1, 4]):
        orders = np.array(order, np.int32)
        assert (solver.fix(rng, every, orders=orders) == every).all()
        assert set(map(tuple, solver.sample(rng, 600, orders=orders).tolist())) == set(partitions)


@pytest.fixture(scope="module")
def tight_graphs():
    """Six or seven nodes on five chips that all have to be used: few nodes are spare.

    Shallow graphs, where any node may serve most chips; chips have to pass nodes on repeatedly.
    """
    rng = np.random.default_rng(11)
    found = []
    for _ in range(16):
        n = int(rng.integers(6, 8))
        edges = {(int(rng.integers(v)), v) for v in range(1, n) if rng.random() < 0.5}
        pins = {n - 1: 4}
        if rng.random() < 0.5:
            pins[int(rng.integers(n - 1))] = int(rng.integers(1, 4))
        found.append((n, sorted(edges), pins))
    return found


def test_tight_graphs_have_the_distribution_of_the_algorithm(tight_graphs, graph_of, all_valid):
    """Neither SAMPLE nor FIX refuses a chip that is possible, or takes one that is not."""
    rng = np.random.default_rng(12)
    tried = 0
    for n, edges, pins in tight_graphs:
        graph = graph_of(n, edges, 5, pins)
        partitions = all_valid(graph)
        solver = BatchSolver.of(graph)
        if not partitions:
            assert solver.shared is None
            continue
        tried += 1
        every = np.array(partitions, np.int32)
        for _ in range(4):
            order = rng.permutation(n).astype(np.int32)
            assert (solver.fix(rng, every, orders=order) == every).all()
        weights = rng.uniform(0.2, 1.0, (n, 5)).astype(np.float32)
        exact = exact_sample(partitions, order, weights)
        drawn = solver.sample(rng, DRAWS, weights, order)
        seen = Counter(map(tuple, drawn.tolist()))
        assert set(seen) <= set(partitions)
        expected = {f: p * DRAWS for f, p in exact.items() if p * DRAWS > 5}
        # All that is rare counts as one cell.
        rare_seen = DRAWS - sum(seen[f] for f in expected)
        rare = DRAWS - sum(expected.values())
        chi2 = sum((seen[f] - e) ** 2 / e for f, e in expected.items())
        chi2 += (rare_seen - rare) ** 2 / rare if rare > 5 else 0.0
        cells = len(expected) + 1
        assert chi2 < cells + 5 * np.sqrt(2 * cells), graph
    assert tried >= 12


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_chips_pass_nodes_on_over_several_steps(graph_of, all_valid, depth):
    """Node 0 leaves chip 0 to node 1, which leaves chip 1 to node 2, and so on to a spare node.

    Node j can be on chip j - 1 and later ones, and no other node on that chip.
    """
    low = [0, *range(depth + 1)]
    high = [depth + 2 + j for j in range(depth + 2)]
    fixed = list(range(depth + 1, high[-1] + 1))
    graph = graph_of(len(low) + len(fixed), [], high[-1] + 1)
    graph = dataclasses.replace(
        graph, low=np.array(low + fixed, np.int32), high=np.array(high + fixed, np.int32)
    )
    every = np.array(all_valid(graph), np.int32)
    solver, rng = BatchSolver.of(graph), np.random.default_rng(13)
    along = np.arange(graph.num_nodes, dtype=np.int32)
    for order in (along, along[::-1]):
        assert (solver.fix(rng, every, orders=order) == every).all()
        drawn = solver.sample(rng, DRAWS, orders=order)
        assert set(map(tuple, drawn.tolist())) <= set(map(tuple, every.tolist()))
    chips = solver.sample(rng, DRAWS, orders=along)[:, 0]
    # Any chip of the first node can be completed, so that all are as likely.
    shares = np.bincount(chips, minlength=high[0] + 1) / DRAWS
    assert np.abs(shares - 1.0 / (high[0] + 1)).max() < 0.05


def test_parts_without_a_connection_are_tied_together(graph_of, all_valid):
    graph = graph_of(6, [(0, 2), (2, 4), (1, 3), (3, 5)], 3)
    drawn = BatchSolver.of(graph, "strict").sample(np.random.default_rng(6), 2000)
    seen = set(map(tuple, drawn.tolist()))
    assert seen <= set(all_valid(graph, 1))
    assert len(seen) > 10
