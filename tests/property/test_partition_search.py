"""Rules, strategies and bounds against brute force on small random problems."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.placements.ring_rules import find_violations
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.contiguous.contiguous_windows import (
    chips_from_cuts,
    tried_partitions,
    windows_along,
)
from mcm_passes.mapping.bounds import bounds
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.resident_sizes import aligned
from mcm_passes.mapping.problem.topological_orders import topological_orders
from tests.generators.partition_problems import problems
from tests.oracles.best_period import best_period

RNG = np.random.default_rng(0)


@given(problems())
@settings(max_examples=40)
def test_no_bound_exceeds_the_optimum(problem):
    best = best_period(problem.at_need())
    for argument in (
        bounds.heaviest_unit,
        bounds.total_work,
        bounds.host_transfers,
        bounds.work_around_a_unit,
        bounds.chain_of_units,
        bounds.tensors_too_large_to_cross,
        bounds.streamed_weights,
        bounds.lower_bound,
    ):
        assert argument(problem).seconds <= best * (1 + 1e-9), argument.__name__


@given(problems())
@settings(max_examples=40)
def test_strategies_return_valid_partitions_that_no_bound_contradicts(problem):
    bound = bounds.lower_bound(problem).seconds
    for strategy in (ContiguousDp(orders=1), ContiguousDp()):
        outcome = strategy.solve(problem, lambda f: period(problem, f), RNG, Budget())
        if outcome.chip_of is None:
            assert outcome.reason
            continue
        result = evaluate(problem, outcome.chip_of)
        assert result.valid
        assert result.period_s >= bound * (1 - 1e-9)


@given(problems(max_units=8))
@settings(max_examples=40)
def test_dp_asks_for_few_partitions(problem):
    """Bisections end; where chips share channels, periods of windows and of partitions differ.

    Partitions that are all tried, as the host reaches only the ends, are counted apart. Windows of
    each share of weights that is streamed, and of each limit on their size, are bisected apart.
    """
    problem = dataclasses.replace(problem, routing="strict")
    for total in (0.0, 2e8):
        limits = dataclasses.replace(problem.limits, host_total_bytes_per_s=total)
        shared = dataclasses.replace(problem, limits=limits)
        outcome = ContiguousDp().solve(shared, AnalyticPeriods(shared), RNG, Budget())
        most = 600 if shared.streams else 150
        assert outcome.evaluations - len(tried_partitions(shared)) < most


@given(problems(max_units=7, chain=True))
@settings(max_examples=40)
def test_dp_is_optimal_on_chains(problem):
    best = best_period(problem)
    found = ContiguousDp().solve(problem, lambda f: period(problem, f), RNG, Budget())
    if found.chip_of is None:
        # Along an order memory is an upper estimate, so a tight fit can be missed.
        assert best == float("inf") or min(problem.limits.sram_bytes) < 40_001
    elif min(problem.limits.sram_bytes) >= 1 << 20:
        np.testing.assert_allclose(period(problem, found.chip_of), best, rtol=2e-6)
    else:
        assert period(problem, found.chip_of) >= best * (1 - 1e-9)


@given(problems())
@settings(max_examples=30)
def test_dp_finds_the_best_cuts_of_its_orders_where_memory_is_ample(problem):
    assume(min(problem.limits.sram_bytes) >= 1 << 20)
    # What several chips read from the host loads a channel that they share with each further one,
    # which no single window knows.
    readers = np.diff(problem.placed_readers.ptr)[problem.tensor_producer < 0]
    assume(not problem.limits.host_total_bytes_per_s or int(readers.max(initial=0)) <= 1)
    best, least = float("inf"), float("inf")
    for order in topological_orders(problem, ContiguousDp().orders):
        n = order.units.size
        for k in range(min(problem.num_chips, n)):
            for inner in itertools.combinations(range(1, n), k):
                chip_of = chips_from_cuts(problem, order.units, np.array([0, *inner, n]))
                period_s = period(problem, chip_of)
                least = min(least, period_s)
                if problem.routing != "strict" or spans_one_chip(problem, chip_of):
                    best = min(best, period_s)
    found = ContiguousDp().solve(problem, lambda f: period(problem, f), RNG, Budget())
    found_s = period(problem, found.chip_of) if found.chip_of is not None else float("inf")
    # Under the strict rule cuts that are not adjacent are tried where those that are do not do.
    assert found_s <= best * (1 + 2e-6)
    # Where the host reaches only the ends, all partitions of small problems are tried.
    assert found_s >= least * (1 - 2e-6) or problem.limits.at_ends


def spans_one_chip(problem, chip_of):
    for t, u in enumerate(problem.tensor_producer):
        if u < 0 or problem.clonable[u]:
            continue
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        if any(chip_of[v] > chip_of[u] + 1 for v in readers):
            return False
    return True


@given(problems())
@settings(max_examples=60)
def test_orders_are_topological_and_complete(problem):
    for order in topological_orders(problem, 4):
        assert sorted(order.units.tolist()) == np.flatnonzero(~problem.clonable).tolist()
        position = {int(u): i for i, u in enumerate(order.units)}
        for t, u in enumerate(problem.tensor_producer.tolist()):
            for v in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]:
                assert u not in position or position[u] < position[int(v)], order.name


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_memory_along_an_order_is_never_less_than_the_fast_models(problem, random):
    order = topological_orders(problem, 1)[0].units
    n = order.size
    k = random.randint(0, min(problem.num_chips, n) - 1)
    cuts = [0, *sorted(random.sample(range(1, n), k)), n]
    chip_of = chips_from_cuts(problem, order, np.array(cuts))
    assume(problem.routing == "relay" or spans_one_chip(problem, chip_of))
    assume(not problem.streams)
    w = windows_along(problem, order)
    exact = evaluate(problem, chip_of).memory_bytes
    for c, (j, i) in enumerate(itertools.pairwise(cuts)):
        items = sum(
            w.items.held[e]
            for e in range(w.items.ptr[j], w.items.ptr[i])
            if w.items.following[e] >= i
        )
        passing = sum(
            w.read.live[e]
            for e in range(w.read.live.size)
            if w.read.other[e] < j and e >= w.read.ptr[i]
        )
        inside = sum(
            w.read.live[e] for e in range(w.read.ptr[j], w.read.ptr[i]) if w.read.other[e] >= j
        )
        live = min(w.live_bytes[j:i].max() - passing, inside)
        packed = aligned(np.ceil(w.chips.packing * live).astype(np.int64), w.chips.alignment)
        need = items + w.out_held[j:i].sum() + packed
        need += w.cuts.arriving[j] + w.cuts.leaving[i]
        assert need >= exact[c]


@st.composite
def placed_graphs(draw):
    n = draw(st.integers(1, 6))
    edges = [(u, v) for v in range(n) for u in range(v) if draw(st.booleans())]
    chip_of = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return n, edges, chip_of


@given(placed_graphs())
@settings(max_examples=300)
def test_rules_agree_with_their_definitions(graph):
    _, edges, chip_of = graph
    quotient = {(chip_of[u], chip_of[v]) for u, v in edges if chip_of[u] != chip_of[v]}

    def longest(a, b, seen=()):
        lengths = [
            1 + longest(m, b, (*seen, a)) if m != b else 1
            for s, m in quotient
            if s == a and m not in seen
        ]
        return max((x for x in lengths if x > 0), default=-1000)

    broken = set()
    if any(chip_of[u] > chip_of[v] for u, v in edges):
        broken.add("acyclic")
    if set(chip_of) != set(range(max(chip_of) + 1)):
        broken.add("no_skip")
    if not broken and any(longest(a, b) > 1 for a, b in quotient):
        broken.add("triangle")
    source = np.array([u for u, _ in edges], dtype=np.int32)
    target = np.array([v for _, v in edges], dtype=np.int32)
    found = find_violations(
        np.array(chip_of, dtype=np.int32), source, target, num_chips=5, routing="strict"
    )
    assert {v.rule for v in found} == broken
    relayed = find_violations(
        np.array(chip_of, dtype=np.int32), source, target, num_chips=5, routing="relay"
    )
    assert {v.rule for v in relayed} == broken - {"triangle"}
