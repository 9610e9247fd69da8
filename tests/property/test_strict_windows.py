"""Cuts of one order under the strict rule that need not be adjacent, against brute force."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings

from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.contiguous import contiguous_dp, strict_windows
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.contiguous.contiguous_windows import chips_from_cuts
from mcm_passes.families.ring.contiguous.strict_windows import StrictWindows
from mcm_passes.mapping.machine.evaluation import evaluate, period
from tests.generators.partition_problems import connected_problems, make_problem

STEPS = 100_000

LAYERS = 4


def strict(problem):
    """The problem under the strict rule: all chips at the host, nothing streamed or shared."""
    limits = dataclasses.replace(
        problem.limits,
        host_io="any",
        stream_bytes_per_s=0.0,
        host_total_bytes_per_s=0.0,
        stream_total_bytes_per_s=0.0,
    )
    return dataclasses.replace(problem, routing="strict", limits=limits)


def best_of_all_cuts(problem, order):
    """The shortest period over all cuts of an order."""
    best = float("inf")
    for count in range(min(problem.num_chips, order.size)):
        for inner in itertools.combinations(range(1, order.size), count):
            cuts = np.array([0, *inner, order.size])
            best = min(best, period(problem, chips_from_cuts(problem, order, cuts)))
    return best


@given(connected_problems())
@settings(max_examples=80)
def test_the_best_cuts_of_an_order_are_found(drawn):
    problem = strict(drawn)
    order = np.flatnonzero(~problem.clonable).astype(np.int32)
    assume(order.size > 0)
    best = best_of_all_cuts(problem, order)
    windows = StrictWindows(problem, order, STEPS)
    if best == float("inf"):
        assert not windows.cuts_within(1.0).size
        return
    cuts = windows.cuts_within(best * (1 + 1e-9))
    assert period(problem, chips_from_cuts(problem, order, cuts)) == pytest.approx(best)
    assert not windows.cuts_within(best * (1 - 1e-6)).size


def decoder():
    """One unit that all layers read through a projection each, and a chain of layers."""
    compute, edges = [8.0, 8.0], [(0, 1)]
    previous = -1
    for _ in range(LAYERS):
        projection, layer = len(compute), len(compute) + 1
        compute += [2.0, 8.0]
        edges += [(1, projection), (projection, layer)]
        if previous >= 0:
            edges.append((previous, layer))
        previous = layer
    return compute, edges


def test_what_all_layers_read_passes_chips_by():
    compute, edges = decoder()
    problem = make_problem(compute, edges, chips=12, routing="strict")
    outcome = ContiguousDp().solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
    )
    assert period(problem, outcome.chip_of) == pytest.approx(8e-6)
    chips = outcome.chip_of
    spans = [int(chips[v] - chips[u]) for u, v in edges]
    assert max(spans) > 1
    assert evaluate(problem, chips).valid


def test_no_cuts_are_found_without_steps(monkeypatch):
    compute, edges = decoder()
    problem = make_problem(compute, edges, chips=12, routing="strict")
    order = np.arange(problem.num_units, dtype=np.int32)
    assert not StrictWindows(problem, order, 0).cuts_within(8.1e-6).size
    monkeypatch.setattr(contiguous_dp, "STRICT_UNITS", 3)
    outcome = ContiguousDp().solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
    )
    # Adjacent cuts alone have all layers that read from one unit on one chip or two.
    assert period(problem, outcome.chip_of) > 8.1e-6


def test_few_states_are_kept_of_each_cut(monkeypatch):
    compute, edges = decoder()
    problem = make_problem(compute, edges, chips=12, routing="strict")
    order = np.arange(problem.num_units, dtype=np.int32)
    many = StrictWindows(problem, order, STEPS)
    many.cuts_within(16e-6)
    monkeypatch.setattr(strict_windows, "MOST_STATES", 1)
    few = StrictWindows(problem, order, STEPS)
    few.cuts_within(16e-6)
    assert few.steps_left > many.steps_left
