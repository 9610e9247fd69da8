"""Propagation with backtracking, CP-SAT, the batch kernels and enumeration accept the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mcm_compiler.placements.ring_rules import find_violations, overflows
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.families.ring.order_encoding.order_literals import OrderLiterals
from mcm_passes.families.ring.placement_constraints.nearest import nearest_chips
from mcm_passes.families.ring.solver.batch import BatchSolver
from tests.oracles.constraint_solver import ConstraintSolver, NoPartitionError, WeightMemory

CHIPS = 3

ALL_ASKED = 4
"""Nodes up to which CP-SAT is asked about every assignment."""


@pytest.fixture(params=range(12))
def connected_graph(request, graph_of):
    """A random connected graph of 2 to 7 nodes."""
    rng = np.random.default_rng(request.param)
    n = 2 + request.param % 6
    edges = {(int(rng.integers(v)), v) for v in range(1, n)}
    edges |= {(u, v) for v in range(n) for u in range(v) if rng.random() < 0.2}
    return graph_of(n, sorted(edges), CHIPS)


def enumerated(graph, routing, memory):
    """All valid partitions by the one function that decides on validity."""
    source = graph.after.owners
    found = set()
    for f in product(range(CHIPS), repeat=graph.num_nodes):
        chips = np.array(f, np.int32)
        if (chips[source] > chips[graph.after.entries]).any():
            continue
        demand = None if memory is None else np.zeros(CHIPS, np.int64)
        if memory is not None:
            users = np.split(memory.weight_users, memory.weight_ptr[1:-1])
            for size, mine in zip(memory.weight_bytes, users, strict=True):
                demand[np.unique(chips[mine])] += size
        broken = find_violations(
            chips, source.astype(np.int32), graph.after.entries, num_chips=CHIPS, routing=routing
        )
        if demand is not None:
            broken += overflows(chips, demand, memory.limit_bytes.tolist())
        if not broken:
            found.add(f)
    return found


def asked(graph, routing, wanted, known=None, effort_s=10.0):
    """The answer of CP-SAT on the rules alone."""
    order = OrderLiterals(graph, None, ChipWindows(graph.low, graph.high))
    return nearest_chips(order, graph, routing, np.array(wanted, np.int32), known, effort_s)


def tight_memory(graph):
    """A weight for each node, the first shared with the last, and room for about half of them."""
    n = graph.num_nodes
    users = [[0, n - 1], *([v] for v in range(1, n - 1))]
    ptr = np.cumsum([0, *map(len, users)])
    sizes = np.arange(3, 3 + len(users))
    limit = np.full(CHIPS, max(int(sizes.sum()) // 2, int(sizes.max())))
    flat = np.array([u for mine in users for u in mine], np.int32)
    return WeightMemory(sizes, ptr, flat, limit)


def accepted(solver, graph):
    """All partitions that the interactive solver can be led to, by trying every decision."""
    found = set()

    def descend(prefix):
        u = len(prefix)
        if u == graph.num_nodes:
            found.add(prefix)
            return
        for chip in range(CHIPS):
            solver.reset()
            path = enumerate((*prefix, chip))
            if all(c in solver.get_domain(v) and solver.set_domain(v, (c,)) > v for v, c in path):
                descend((*prefix, chip))

    descend(())
    return found


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("with_memory", [False, True])
def test_all_accept_the_same_partitions(connected_graph, routing, with_memory):
    graph = connected_graph
    memory = tight_memory(graph) if with_memory else None
    valid = enumerated(graph, routing, memory)
    nothing = asked(graph, routing, np.zeros(graph.num_nodes))
    try:
        solver = ConstraintSolver(graph, routing, memory)
    except NoPartitionError:
        assert valid == set()
        assert memory is not None or (nothing.proven and nothing.chip_of is None)
        return
    assert accepted(solver, graph) == valid
    rng = np.random.default_rng(1)
    if memory is not None:
        return
    wishes = list(product(range(CHIPS), repeat=graph.num_nodes))
    if graph.num_nodes > ALL_ASKED:
        # Each is a question to CP-SAT of its own; of larger graphs some are asked.
        anything = [tuple(f) for f in rng.integers(0, CHIPS, (20, graph.num_nodes)).tolist()]
        likely = sorted(valid)
        wishes = [*anything, *likely[:: max(len(likely) // 20, 1)]]
    for f in wishes:
        answer = tuple(asked(graph, routing, f).chip_of.tolist())
        assert answer in valid
        assert (answer == f) == (f in valid)
    every = np.array(list(product(range(CHIPS), repeat=graph.num_nodes)), np.int32)
    kept = (BatchSolver.of(graph, routing).fix(rng, every) == every).all(axis=1)
    short = (every[:, graph.after.entries] - every[:, _source(graph)] <= 1).all(axis=1)
    wanted = {tuple(f) for f in every[short].tolist()} & valid if routing == "strict" else valid
    assert {tuple(f) for f in every[kept].tolist()} == wanted


def _source(graph):
    return graph.after.owners


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_nearest_is_nearest(connected_graph, routing):
    graph = connected_graph
    valid = np.array(sorted(enumerated(graph, routing, None)), np.int32)
    rng = np.random.default_rng(2)
    for _ in range(3):
        wish = rng.integers(-1, CHIPS + 1, graph.num_nodes).astype(np.int32)
        answer = asked(graph, routing, wish)
        assert answer.proven
        assert (answer.chip_of != wish).sum() == (valid != wish).sum(axis=1).min()
        assert (asked(graph, routing, wish).chip_of == answer.chip_of).all()


def test_cp_sat_proves_that_pins_contradict_each_other(graph_of):
    graph = graph_of(3, [(0, 1), (1, 2)], CHIPS, {0: 2, 1: 1})
    answer = asked(graph, "relay", np.zeros(3))
    assert answer.chip_of is None
    assert answer.proven
    with pytest.raises(NoPartitionError):
        ConstraintSolver(graph)


def test_cp_sat_admits_that_it_gave_up(graph_of):
    graph = graph_of(30, [(i, i + 1) for i in range(29)], 20)
    answer = asked(graph, "strict", np.zeros(30), effort_s=1e-9)
    assert answer.chip_of is None
    assert not answer.proven


def test_cp_sat_completes_what_the_batch_cannot_reach(graph_of):
    """Two branches pinned to a chip each: valid, though dependencies span more than one chip."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    graph = graph_of(5, edges, 5, {0: 0, 1: 1, 2: 2, 3: 3})
    solver = BatchSolver.of(graph, "strict")
    rng = np.random.default_rng(3)
    wishes = np.array([[0, 1, 2, 3, 4], [4, 4, 4, 4, 3]], np.int32)
    assert (solver.fix(rng, wishes) == -1).all()
    found = [asked(graph, "strict", wish).chip_of.tolist() for wish in wishes]
    assert found == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 3]]


def test_cp_sat_proves_that_there_is_nothing_to_complete(graph_of):
    graph = graph_of(3, [(0, 1), (1, 2), (0, 2)], 3, {0: 0, 1: 1, 2: 2})
    answer = asked(graph, "strict", [0, 1, 2])
    assert answer.chip_of is None
    assert answer.proven


def test_nearest_starts_from_what_is_known(graph_of):
    graph = graph_of(6, [(i, i + 1) for i in range(5)], 4)
    wish = np.array([0, 1, 0, 2, 9, 3], np.int32)
    answer = asked(graph, "relay", wish, np.array([0, 0, 0, 1, 1, 2], np.int32))
    # Node 4 has no such chip, and one of 1 and 2 has to move.
    assert answer.proven
    assert (answer.chip_of != wish).sum() == 2
