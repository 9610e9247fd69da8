"""The order that does one recurrence after the other."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np

from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.mapping.machine.evaluation import period
from mcm_passes.mapping.problem.topological_orders import topological_orders

WEIGHT = 100_032
"""A multiple of 64, so that rounding up leaves it."""
LAYERS = 4
QUERY = LAYERS
STEPS = 30


def attention_problem(sram: int = round(2.5 * WEIGHT)) -> PartitionProblem:
    """Layers, unrolled with all layers per step; the lowest recurs through a query's weight.

    In step t, layer k reads layer k - 1 and its own step before; the query reads the lowest layer,
    and is read by all layers of the next step. One tiny weight is shared by all.
    """
    unit = {(t, k): t * (LAYERS + 1) + k for t in range(STEPS) for k in range(LAYERS + 1)}
    reads = {u: set[int]() for u in unit.values()}
    for (t, k), u in unit.items():
        if k == QUERY:
            reads[u].add(unit[t, 0])
            continue
        if k:
            reads[u].add(unit[t, k - 1])
        if t:
            reads[u] |= {unit[t - 1, k], unit[t - 1, QUERY]}
    # The query of the last step would have no reader.
    n = len(unit)
    readers = [sorted(v for v in reads if u in reads[v]) for u in range(n)]
    users = [[unit[t, k] for t in range(STEPS)] for k in range(LAYERS + 1)] + [list(range(n))]
    weight_bytes = [WEIGHT] * (LAYERS + 1) + [4]
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=np.full(n, 1e-6),
        clonable=np.zeros(n, dtype=np.bool_),
        pinned_chip=np.full(n, -1, dtype=np.int32),
        tensor_names=tuple(f"t{u}" for u in range(n)),
        tensor_bytes=np.full(n, 4, dtype=np.int64),
        tensor_producer=np.arange(n, dtype=np.int32),
        tensor_ptr=np.cumsum([0, *(len(r) for r in readers)]).astype(np.int64),
        tensor_consumers=np.array([v for r in readers for v in r], dtype=np.int32),
        tensor_to_host=np.array([not r for r in readers]),
        relay_s=np.zeros(n),
        weight_names=tuple(f"w{k}" for k in range(LAYERS + 2)),
        weight_bytes=np.array(weight_bytes, dtype=np.int64),
        weight_ptr=np.cumsum([0, *(len(row) for row in users)]).astype(np.int64),
        weight_users=np.array([u for row in users for u in row], dtype=np.int32),
        limits=PackageLimits(LAYERS, (sram,) * LAYERS, 1e9, 1e-6, "any", 1e9),
        routing="relay",
    )


def _orders(problem: PartitionProblem) -> dict[str, list[int]]:
    return {order.name: order.units.tolist() for order in topological_orders(problem, 6)}


def test_every_recurrence_is_done_as_a_whole() -> None:
    problem = attention_problem()
    layers = [u % (LAYERS + 1) for u in _orders(problem)["components"]]
    recurrences = [0 if k == QUERY else k for k in layers]
    changes = sum(a != b for a, b in pairwise(recurrences))
    assert changes == LAYERS - 1


def test_the_order_is_topological() -> None:
    problem = attention_problem()
    position = np.argsort(_orders(problem)["components"])
    source, target = dependency_edges(problem)
    assert (position[source] < position[target]).all()


def test_a_weight_that_takes_next_to_nothing_keeps_nothing_together() -> None:
    problem = attention_problem()
    weight_bytes = problem.weight_bytes.copy()
    weight_bytes[-1] = WEIGHT
    large = dataclasses.replace(problem, weight_bytes=weight_bytes)
    assert "components" in _orders(problem)
    # All layers are one recurrence now, which leaves the given order as it is.
    assert "components" not in _orders(large)


def test_the_order_is_left_out_where_no_large_weight_is_shared() -> None:
    problem = attention_problem()
    assert "components" not in _orders(
        dataclasses.replace(problem, weight_bytes=np.full(LAYERS + 2, 4, np.int64))
    )


def test_dp_fits_recurrences_into_chips_that_no_other_order_fits() -> None:
    problem = attention_problem()

    def search(orders: int) -> float:
        outcome = ContiguousDp(orders=orders).solve(
            problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
        )
        return np.inf if outcome.chip_of is None else period(problem, outcome.chip_of)

    assert search(5) == np.inf
    # So much takes a chip that has the lowest layer and the query, and each other layer on its own.
    assert search(6) <= 2 * STEPS * 1e-6 * (1 + 1e-9)
