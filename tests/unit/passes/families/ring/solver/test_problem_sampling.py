"""Sampling of whole problems, small and large, with clonable units and pins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_passes.families.ring.placement_constraints import nearest
from mcm_passes.families.ring.placement_constraints.nearest import nearest_partition
from mcm_passes.families.ring.solver import batch
from mcm_passes.families.ring.solver.batch import ProblemSampler
from mcm_passes.families.ring.solver.random_stream import linear_extensions, streams
from mcm_passes.families.ring.strategies.local_search import ask_authority
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.rule_graph import rule_graph
from mcm_passes.mapping.search.search import Search


def problem_of(edges, num_units, routing, clonable=(), pins=None, num_chips=4):
    """Units of a second each; a tensor from each unit to all that read it."""
    readers = [sorted(v for u, v in edges if u == unit) for unit in range(num_units)]
    pinned = np.full(num_units, -1, np.int32)
    for unit, chip in (pins or {}).items():
        pinned[unit] = chip
    names = tuple(f"u{i}" for i in range(num_units))
    return PartitionProblem(
        names=names,
        members=tuple((name,) for name in names),
        compute_s=np.ones(num_units),
        clonable=np.isin(np.arange(num_units), clonable),
        pinned_chip=pinned,
        tensor_names=names,
        tensor_bytes=np.ones(num_units, np.int64),
        tensor_producer=np.arange(num_units, dtype=np.int32),
        tensor_ptr=np.cumsum([0, *map(len, readers)]).astype(np.int64),
        tensor_consumers=np.array([v for row in readers for v in row], np.int32),
        tensor_to_host=np.array([not row for row in readers]),
        relay_s=np.zeros(num_units),
        weight_names=(),
        weight_bytes=np.zeros(0, np.int64),
        weight_ptr=np.zeros(1, np.int64),
        weight_users=np.zeros(0, np.int32),
        limits=limits(num_chips),
        routing=routing,
    )


def limits(num_chips):
    return PackageLimits(
        num_chips=num_chips,
        sram_bytes=(1 << 20,) * num_chips,
        link_bytes_per_s=1e9,
        hop_latency_s=1e-6,
        host_bytes_per_s=1e9,
        host_io="any",
        channel_slots=2,
    )


# Unit 0 is a mask that units 1 and 4 read; 1 to 6 are a chain, and 7 hangs on 2.
EDGES = [(0, 1), (0, 4), *((i, i + 1) for i in range(1, 6)), (2, 7)]


@pytest.fixture(params=["whole", "along_orders"])
def any_size(request, monkeypatch):
    if request.param == "along_orders":
        monkeypatch.setattr(batch, "MAX_CLOSURE_NODES", 2)
    return request.param


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_draws_are_valid_and_clones_stand_with_their_first_reader(any_size, routing):
    problem = problem_of(EDGES, 8, routing, clonable=(0,), pins={3: 1})
    sampler = ProblemSampler.of(problem)
    assert (sampler.batch is None) == (any_size == "along_orders")
    rng = np.random.default_rng(1)
    weights = rng.random((8, 4), np.float32)
    per_rollout = rng.random((40, 8, 4), np.float32)
    for drawn in (
        sampler.sample(rng, 70),
        sampler.sample(rng, 70, weights),
        sampler.sample(rng, 40, per_rollout),
    ):
        assert len(np.unique(drawn, axis=0)) > 5
        for chip_of in drawn:
            assert find_placement_violations(problem, chip_of) == []
        assert (drawn[:, 0] == drawn[:, [1, 4]].min(axis=1)).all()


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_pins_that_contradict_the_order_leave_nothing(any_size, routing):
    problem = problem_of(EDGES, 8, routing, pins={1: 2, 2: 1})
    sampler = ProblemSampler.of(problem)
    assert (sampler.sample(np.random.default_rng(3), 5) == -1).all()


def test_a_far_reader_limits_the_chips_under_the_strict_rule():
    edges = [*((i, i + 1) for i in range(19)), (0, 19)]
    strict = ProblemSampler.of(problem_of(edges, 20, "strict", num_chips=8))
    assert strict.batch.high.max() == 1
    assert strict.sample(np.random.default_rng(4), 200).max() == 1
    relay = ProblemSampler.of(problem_of(edges, 20, "relay", num_chips=8))
    assert relay.sample(np.random.default_rng(4), 200).max() == 7


BRANCHES = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]


def test_where_no_draw_is_valid_the_answer_is_that_of_cp_sat():
    """Branches on a chip each are strict, but some dependency spans two chips."""

    def asked(problem):
        search = Search(problem, AnalyticPeriods(problem), Budget(evaluations=50))
        return search, ask_authority(search, "nothing drawn")

    problem = problem_of(BRANCHES, 5, "strict", pins={1: 1, 2: 2, 3: 3})
    assert ProblemSampler.of(problem).batch.shared is None
    found, reason = asked(problem)
    assert (found.best.tolist(), reason) == ([0, 1, 2, 3, 3], "")
    assert find_placement_violations(problem, found.best) == []
    nothing, reason = asked(problem_of([*BRANCHES, (1, 2)], 5, "strict", pins={0: 0, 1: 1, 2: 2}))
    assert nothing.best is None
    assert "CP-SAT proves" in reason


def test_completion_leaves_room_for_weights():
    """Four weights of which one fits a chip: all chips are needed, one each."""
    problem = problem_of([(0, 1), (1, 2), (2, 3)], 4, "relay")
    problem = dataclasses.replace(
        problem,
        weight_names=tuple("abcd"),
        weight_bytes=np.full(4, 700_000, np.int64),
        weight_ptr=np.arange(5, dtype=np.int64),
        weight_users=np.arange(4, dtype=np.int32),
    )
    answer = nearest_partition(problem, np.zeros(4, np.int32), None, 5.0)
    assert answer.chip_of.tolist() == [0, 1, 2, 3]
    assert answer.proven
    larger = dataclasses.replace(problem, weight_bytes=np.full(4, 1_100_000, np.int64))
    nothing = nearest_partition(larger, np.zeros(4, np.int32), None, 5.0)
    assert nothing.chip_of is None
    assert nothing.proven


def test_a_graph_that_is_too_large_for_cp_sat_is_not_asked(monkeypatch):
    monkeypatch.setattr(nearest, "MOST_LITERALS", 10)
    problem = problem_of(BRANCHES, 5, "strict")
    answer = nearest_partition(problem, np.zeros(5, np.int32), None, 1.0)
    assert answer.chip_of is None
    assert not answer.proven


def test_linear_extensions_keep_sources_next_to_their_first_reader(graphs):
    rng = np.random.default_rng(5)
    for graph in graphs:
        n = graph.num_nodes
        orders = linear_extensions(graph, streams(rng, 30))
        assert (np.sort(orders, axis=1) == np.arange(n)).all()
        for order in orders:
            position = np.argsort(order)
            for u in range(n):
                readers = graph.after.row(u)
                assert (position[readers] > position[u]).all()
                if graph.before.ptr[u] == graph.before.ptr[u + 1] and readers.size:
                    between = order[position[u] + 1 : position[readers].min()]
                    assert (graph.before.ptr[between + 1] == graph.before.ptr[between]).all()


def test_extensions_differ():
    graph = rule_graph(problem_of([(0, 2), (1, 3), (2, 4), (3, 5)], 6, "relay"))
    orders = linear_extensions(graph, streams(np.random.default_rng(6), 200))
    assert len(np.unique(orders, axis=0)) > 4
