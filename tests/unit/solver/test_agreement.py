"""Propagation with backtracking, CP-SAT, the batch kernels and enumeration accept the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mcm_compiler.ring_rules import find_violations
from mcm_passes.solver.batch import BatchSolver
from mcm_passes.solver.constraint_solver import ConstraintSolver, NoPartitionError
from mcm_passes.solver.cp_sat import RingAuthority
from mcm_passes.solver.weight_memory import WeightMemory

CHIPS = 3


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
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.next_ptr))
    found = set()
    for f in product(range(CHIPS), repeat=graph.num_nodes):
        chips = np.array(f, np.int32)
        if (chips[source] > chips[graph.next_nodes]).any():
            continue
        demand = None if memory is None else np.zeros(CHIPS, np.int64)
        if memory is not None:
            users = np.split(memory.weight_users, memory.weight_ptr[1:-1])
            for size, mine in zip(memory.weight_bytes, users, strict=True):
                demand[np.unique(chips[mine])] += size
        broken = find_violations(
            chips,
            source.astype(np.int32),
            graph.next_nodes,
            num_chips=CHIPS,
            routing=routing,
            demand_bytes=demand,
            limit_bytes=() if memory is None else memory.limit_bytes.tolist(),
        )
        if not broken:
            found.add(f)
    return found


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
    authority = RingAuthority(graph, routing, memory)
    try:
        solver = ConstraintSolver(graph, routing, memory)
    except NoPartitionError:
        assert valid == set()
        assert authority.find_any().proven
        assert authority.find_any().chips is None
        return
    assert accepted(solver, graph) == valid
    rng = np.random.default_rng(1)
    anything = [tuple(f) for f in rng.integers(0, CHIPS, (20, graph.num_nodes)).tolist()]
    likely = sorted(valid)
    for f in [*anything, *likely[:: max(len(likely) // 20, 1)]]:
        assert authority.is_valid(np.array(f, np.int32)) == (f in valid)
    assert tuple(authority.find_any().chips.tolist()) in valid
    if memory is None:
        every = np.array(list(product(range(CHIPS), repeat=graph.num_nodes)), np.int32)
        kept = (BatchSolver.of(graph, routing).fix(rng, every) == every).all(axis=1)
        short = (every[:, graph.next_nodes] - every[:, _source(graph)] <= 1).all(axis=1)
        wanted = {tuple(f) for f in every[short].tolist()} & valid if routing == "strict" else valid
        assert {tuple(f) for f in every[kept].tolist()} == wanted


def _source(graph):
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.next_ptr))


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_nearest_is_nearest(connected_graph, routing):
    graph = connected_graph
    valid = np.array(sorted(enumerated(graph, routing, None)), np.int32)
    authority = RingAuthority(graph, routing)
    rng = np.random.default_rng(2)
    for _ in range(3):
        wish = rng.integers(-1, CHIPS + 1, graph.num_nodes).astype(np.int32)
        weights = rng.integers(1, 9, graph.num_nodes).astype(np.float64)
        answer = authority.nearest(wish, weights)
        assert answer.proven
        best = ((valid != wish) * weights).sum(axis=1).min()
        assert ((answer.chips != wish) * weights).sum() == best
        assert (authority.nearest(wish, weights).chips == answer.chips).all()


def test_the_authority_tells_that_pins_contradict_each_other(graph_of):
    graph = graph_of(3, [(0, 1), (1, 2)], CHIPS, {0: 2, 1: 1})
    authority = RingAuthority(graph, "relay")
    assert authority.find_any().chips is None
    assert authority.nearest(np.zeros(3, np.int32)).proven
    assert not authority.is_valid(np.zeros(3, np.int32))
    with pytest.raises(NoPartitionError):
        ConstraintSolver(graph)


def test_the_authority_admits_that_it_gave_up(graph_of):
    graph = graph_of(30, [(i, i + 1) for i in range(29)], 20)
    answer = RingAuthority(graph, "strict", deterministic_seconds=1e-9).find_any()
    assert answer.chips is None
    assert not answer.proven
