"""The order by resident weights, and how much a search along an order looks at."""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.families.ring.contiguous import contiguous_dp
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.contiguous.contiguous_kernels import (
    WindowSums,
    _earliest_starts,
    _latest_starts,
)
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.mapping.machine.evaluation import period
from mcm_passes.mapping.problem.topological_orders import RESIDENT_SHARE, topological_orders

WEIGHT = 100_032
"""A multiple of 64, so that rounding up leaves it."""
LAYERS = 4


def recurrent_problem(steps, sram=4 * WEIGHT, chips=4):
    """Layers of which the lowest two recur through each other, unrolled with all layers per step.

    In step t, unit (t, 0) reads unit (t - 1, 1) as attention does; all units read the layer below
    and their own layer's step before.
    """
    unit = {(t, k): t * LAYERS + k for t in range(steps) for k in range(LAYERS)}
    readers = [set() for _ in unit]
    for (t, k), u in unit.items():
        if k:
            readers[unit[t, k - 1]].add(u)
        if t:
            readers[unit[t - 1, k]].add(u)
        if t and k == 0:
            readers[unit[t - 1, 1]].add(u)
    n = len(unit)
    users = [[unit[t, k] for t in range(steps)] for k in range(LAYERS)]
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=np.full(n, 1e-6),
        clonable=np.zeros(n, dtype=np.bool_),
        pinned_chip=np.full(n, -1, dtype=np.int32),
        tensor_names=tuple(f"t{u}" for u in range(n)),
        tensor_bytes=np.full(n, 4, dtype=np.int64),
        tensor_producer=np.arange(n, dtype=np.int32),
        tensor_ptr=np.concatenate([[0], np.cumsum([len(r) for r in readers])]).astype(np.int64),
        tensor_consumers=np.array([v for r in readers for v in sorted(r)], dtype=np.int32),
        tensor_to_host=np.array([not r for r in readers]),
        relay_s=np.zeros(n),
        weight_names=tuple(f"w{k}" for k in range(LAYERS)),
        weight_bytes=np.full(LAYERS, WEIGHT, dtype=np.int64),
        weight_ptr=np.arange(LAYERS + 1, dtype=np.int64) * steps,
        weight_users=np.array([u for row in users for u in row], dtype=np.int32),
        limits=PackageLimits(chips, (sram,) * chips, 1e9, 1e-6, "any", 1e9),
        routing="relay",
    )


def _by_name(problem):
    return {order.name: order.units for order in topological_orders(problem, 5)}


def _loads(problem, order, room):
    """Weights that are brought in along an order by a chip that drops all when it is full."""
    resident, brought = set(), 0
    for u in order.tolist():
        layer = u % LAYERS
        if layer in resident:
            continue
        if (len(resident) + 1) * WEIGHT > room:
            resident = set()
        resident.add(layer)
        brought += 1
    return brought


def test_layers_that_recur_through_each_other_stay_together():
    problem = recurrent_problem(steps=50, sram=round(2 * WEIGHT / RESIDENT_SHARE))
    orders = _by_name(problem)
    assert _loads(problem, orders["resident"], 2 * WEIGHT) == LAYERS
    assert _loads(problem, orders["given"], 2 * WEIGHT) > 50


def test_dp_finds_a_partition_that_no_other_order_has():
    problem = recurrent_problem(steps=50, sram=27 * WEIGHT // 10)
    search = lambda orders: ContiguousDp(orders=orders).solve(  # noqa: E731
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
    )
    assert search(4).chip_of is None
    assert np.isfinite(period(problem, search(5).chip_of))


def test_orders_that_need_no_shared_weight_are_left_out():
    problem = recurrent_problem(steps=3)
    lone = dataclasses.replace(
        problem,
        weight_names=("w",),
        weight_bytes=np.array([9], dtype=np.int64),
        weight_ptr=np.array([0, 1], dtype=np.int64),
        weight_users=np.array([0], dtype=np.int32),
    )
    assert {"weights", "resident"}.isdisjoint(_by_name(lone))


def test_earliest_starts_are_the_first_that_fit():
    """Against all starts, with memory that is tight for what arrives and leaves."""
    problem = recurrent_problem(steps=12, sram=27 * WEIGHT // 10)
    windows = windows_along(problem, _by_name(problem)["resident"])
    latest = _latest_starts(windows)
    period_s = 9e-6
    starts = _earliest_starts(windows, period_s, latest)
    lo, sums = starts.start, WindowSums(*starts.sums.T)
    seconds, memory = sums.busy_s + sums.relay_s, sums.held
    n = problem.num_units
    for i in range(1, n + 1):
        if lo[i] == i:
            continue
        units = _by_name(problem)["resident"][lo[i] : i]
        assert seconds[i] <= period_s
        np.testing.assert_allclose(seconds[i], len(units) * 1e-6)
        assert memory[i] >= len({u % LAYERS for u in units.tolist()}) * WEIGHT


def test_a_search_asks_for_as_many_partitions_however_large_the_graph_is(monkeypatch):
    """Bisection depends on the precision alone; the work per try is a few passes over the order."""
    tries = []
    chained = contiguous_dp.chain_windows
    monkeypatch.setattr(
        contiguous_dp, "chain_windows", lambda *args: tries.append(0) or chained(*args)
    )
    counts = []
    for steps in (40, 400, 4000):
        tries.clear()
        problem = recurrent_problem(steps, sram=1 << 24)
        evaluate = lambda f, p=problem: period(p, f)  # noqa: E731
        ContiguousDp().solve(problem, evaluate, np.random.default_rng(0), Budget())
        counts.append(len(tries))
    assert max(counts) < 2 * counts[0] + 20
