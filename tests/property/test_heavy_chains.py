"""Chains of ideals of heavy units, with unavoidable relays, against brute force."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

from mcm_compiler.contracts.partition import Budget, LowerBound
from mcm_compiler.machines.kind_costs import ViewCopies
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.families.ring.exact.packed_check import units_do_not_pack_in_order
from mcm_passes.mapping.bound_checks.heavy_check import no_chain_of_heavy_units
from mcm_passes.mapping.bound_checks.window_check import plain_windows
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.heavy_chains import heavy_chains
from mcm_passes.mapping.machine.evaluation import period
from tests.generators.partition_problems import connected_problems, make_problem
from tests.oracles.best_period import best_period
from tests.oracles.shown_bounds import verify_bound


def split_steps(steps, chips, **choices):
    """Parts of one tensor that the steps of a chain read one after another; all results meet."""
    edges = [(0, 1 + t) for t in range(steps)]
    edges += [(t, t + 1) for t in range(1, steps)]
    edges += [(1 + t, 1 + steps) for t in range(steps)]
    # Each step reads a part of its own, which another unit makes of what is split.
    n = steps + 2
    parts = [(0, n + t) for t in range(steps)] + [(n + t, 1 + t) for t in range(steps)]
    order = [0, *range(n, n + steps), *range(1, n)]
    place = {u: i for i, u in enumerate(order)}
    compute = [2.0, *([1.0] * steps), *([3.0] * steps), 2.0]
    pairs = sorted((place[u], place[v]) for u, v in edges + parts)
    return make_problem(compute, pairs, chips=chips, **choices)


@given(connected_problems())
@settings(max_examples=20)
def test_no_placement_is_faster_and_the_check_agrees(problem):
    problem = problem.at_need()
    best = best_period(problem)
    if not best < float("inf"):
        return
    known = LowerBound(best * 0.3, "a third")
    # Asked beyond the optimum as well, where some chain has to fit.
    for period_s in (best, best * 1.5):
        bound = heavy_chains(problem, known, period_s, 10.0)
        assert bound.seconds <= best * (1 + 1e-9)
        assert bound is known or verify_bound(problem, bound)
    assert not no_chain_of_heavy_units(problem, best * (1 + 1e-6))


@pytest.mark.parametrize("forwarding", ["engine", "router"])
def test_relays_that_every_placement_pays_count(forwarding):
    problem = split_steps(6, 5, relay_us=1.0, forwarding=forwarding)
    best = Ideals().solve(problem, lambda f: period(problem, f), np.random.default_rng(0), Budget())
    least = period(problem, best.chip_of)
    known = lower_bound(problem)
    bound = heavy_chains(problem, known, least, 10.0)
    assert known.seconds <= bound.seconds <= least * (1 + 1e-9)
    if forwarding == "engine":
        assert bound.proof == "heavy_chains"
        assert least / bound.seconds - 1 < 0.5 * (least / known.seconds - 1)
        assert verify_bound(problem, bound)
        above = dataclasses.replace(bound, seconds=least * 1.01)
        assert not verify_bound(problem, above)


def with_views(problem, draw):
    """The same where some units make views of what they read, and other relays take other times."""
    maker, count = problem.tensor_producer, problem.tensor_bytes.size
    readers = [problem.placed_readers.row(t) for t in range(count)]
    alias, writer = np.full(count, -1, np.int32), maker.copy()
    for t in np.flatnonzero(maker >= 0):
        read = [s for s in range(count) if maker[t] in readers[s]]
        if draw.random() < 0.6:
            alias[t] = draw.choice(read)
            writer[t] = writer[alias[t]]
    views = np.flatnonzero((alias >= 0) & (draw.random(count) < 0.9)).astype(np.int32)
    return dataclasses.replace(
        problem,
        tensor_alias=alias,
        relay_s=draw.choice([0.1, 1.0, 3.0], count) * 1e-6,
        copies=ViewCopies(views, writer[views], draw.choice([0.2, 1.0, 4.0], views.size) * 1e-6)
        if views.size
        else None,
    )


@pytest.mark.parametrize("seed", range(60))
def test_views_of_inputs_of_tensors_and_of_views_are_relayed_or_copied(seed):
    draw = np.random.default_rng(seed)
    units, chips = int(draw.integers(4, 7)), int(draw.integers(3, 5))
    edges = {(int(draw.integers(max(0, v - 3), v)), v) for v in range(1, units)}
    edges |= {(u, v) for v in range(units) for u in range(v) if draw.random() < 0.15}
    work = draw.choice([0.1, 0.5, 2.0, 3.0], units)
    plain = make_problem(work, sorted(edges), chips=chips, tensor_bytes=10, link=1e12)
    problem = with_views(plain, draw).at_need()
    best = best_period(problem)
    bound = heavy_chains(problem, LowerBound(best * 0.3, "a part"), best * 1.5, 10.0)
    assert bound.seconds <= best * (1 + 1e-9)
    assert not bound.proof or verify_bound(problem, bound)
    assert not no_chain_of_heavy_units(problem, best * (1 + 1e-6))


@pytest.mark.parametrize(
    "check", [no_chain_of_heavy_units, units_do_not_pack_in_order, plain_windows]
)
def test_checks_take_no_memory_for_pairs_of_copied_units(check):
    copies, chips = 3_000, 4
    edges = [(u, copies + u % 8) for u in range(copies)]
    edges += [(u, u + 1) for u in range(copies, copies + 7)]
    problem = make_problem(np.ones(copies + 8), edges, chips=chips, clonable=range(copies))
    check(problem, 1.0)
    tracemalloc.start()
    check(problem, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < copies**2 / 2


def test_a_search_without_effort_proves_nothing():
    problem = split_steps(6, 5, relay_us=1.0)
    known = lower_bound(problem)
    assert heavy_chains(problem, known, 1.0, 0.0) is known
