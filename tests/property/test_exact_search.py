"""Exact strategies, bounds and their certificates against brute force on small problems."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import Budget, LowerBound
from mcm_passes.families.ring.exact.cpsat import CpSat
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.families.ring.order_encoding.chip_windows import chip_windows, windows_bound
from mcm_passes.mapping.bounds import bounds
from mcm_passes.mapping.bounds.bounds import outputs_passed_on
from mcm_passes.mapping.bounds.packing import copied_weights
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.problem.rule_graph import rule_graph
from tests.generators.partition_problems import connected_problems, make_problem
from tests.oracles.best_period import best_period
from tests.oracles.shown_bounds import verify_bound

ARGUMENTS = (
    bounds.heaviest_unit,
    bounds.total_work,
    bounds.host_transfers,
    bounds.work_around_a_unit,
    bounds.chain_of_units,
    bounds.tensors_too_large_to_cross,
    bounds.streamed_weights,
    outputs_passed_on,
)


def windows_know_all(problem):
    """Whether what chips share takes as long wherever units are; if not, no window knows it."""
    readers = np.diff(problem.placed_readers.ptr)[problem.tensor_producer < 0]
    copies = problem.limits.host_total_bytes_per_s and int(readers.max(initial=0)) > 1
    streams = problem.streams and problem.limits.stream_total_bytes_per_s
    return not copies and not streams and not problem.limits.at_ends


def solved(strategy, problem):
    outcome = strategy.solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
    )
    if outcome.chip_of is None:
        return outcome, float("inf")
    assert evaluate(problem, outcome.chip_of).valid
    return outcome, period(problem, outcome.chip_of)


@given(connected_problems())
@settings(max_examples=30)
def test_exact_strategies_find_the_optimum_or_prove_that_there_is_none(problem):
    problem = problem.at_need()
    best = best_period(problem)
    for strategy in (CpSat(ideals=0, tolerance=1e-6), CpSat()):
        outcome, found = solved(strategy, problem)
        if best == float("inf"):
            assert outcome.chip_of is None
            assert outcome.reason.startswith("none exists")
            continue
        room = 2.0 * strategy.tolerance
        # Where the host reaches only the ends, no proof knows all that crosses links.
        assert found == pytest.approx(best, rel=room) or problem.limits.at_ends
        assert found >= best * (1 - room)
        assert outcome.bound.seconds <= best * (1 + 1e-9)
        assert best * (1 - room) <= outcome.bound.seconds or problem.limits.at_ends

    outcome, found = solved(Ideals(), problem)
    if problem.routing == "relay" and windows_know_all(problem):
        assert (found == best) or found == pytest.approx(best, rel=1e-9)
    assert found >= best * (1 - 1e-9)
    if outcome.bound is not None:
        assert outcome.bound.seconds <= best * (1 + 1e-9)
    if outcome.chip_of is None and outcome.reason.startswith("none exists"):
        assert best == float("inf")


@given(connected_problems(), st.sampled_from([1.25, 2.0, 4.0]))
@settings(max_examples=25)
def test_no_partition_that_the_estimate_fits_beats_what_is_settled(problem, packing):
    limits = dataclasses.replace(problem.limits, activation_packing=packing)
    problem = dataclasses.replace(problem, limits=limits)
    best = best_period(problem)
    for strategy in (Ideals(), CpSat()):
        outcome, _ = solved(strategy, problem)
        assert outcome.settled_s <= best * (1 + 1e-9)


def test_what_only_the_estimate_leaves_out_is_settled():
    """Two of four units fit a chip with their tensors, and not with room for gaps."""
    diamond = [(0, 1), (0, 2), (1, 3), (2, 3)]
    problem = make_problem([5] * 4, diamond, chips=2, sram=22_000, tensor_bytes=lambda _: 3000)
    limits = dataclasses.replace(problem.limits, activation_packing=1.5)
    problem = dataclasses.replace(problem, limits=limits)
    needed, best = best_period(problem.at_need()), best_period(problem)
    assert needed < best < float("inf")
    outcome, found = solved(Ideals(), problem)
    assert outcome.settled_s == pytest.approx(best)
    assert found == pytest.approx(best)
    assert outcome.bound.seconds <= needed * (1 + 1e-9)


@given(connected_problems())
@settings(max_examples=15)
def test_what_is_proven_while_room_is_kept_holds_without_it(problem):
    """Partitions are to leave room for gaps; bounds and refusals speak of all that may fit."""
    best, least = best_period(problem), best_period(problem.at_need())
    assert least <= best
    strict = problem.routing == "strict"
    for strategy in (Ideals(), CpSat(), CpSat(ideals=0)):
        outcome, found = solved(strategy, problem)
        assert found >= best * (1 - 1e-9)
        if isinstance(strategy, Ideals) and windows_know_all(problem) and not strict:
            assert (found == best) or found == pytest.approx(best, rel=1e-9)
        if outcome.bound is not None:
            assert outcome.bound.seconds <= least * (1 + 1e-9)
        assert not outcome.infeasible or least == float("inf")


@given(connected_problems(), st.integers(1, 60))
@settings(max_examples=40)
def test_a_search_over_ideals_that_is_cut_short_proves_what_is_true(problem, windows):
    problem = problem.at_need()
    best = best_period(problem)
    outcome, found = solved(Ideals(windows=windows), problem)
    assert found >= best * (1 - 1e-9)
    if outcome.bound is not None:
        assert outcome.bound.seconds <= best * (1 + 1e-9)
        assert verify_bound(problem, outcome.bound)
    if outcome.reason.startswith("none exists"):
        assert best == float("inf")


@given(connected_problems())
@settings(max_examples=15)
def test_bounds_hold_and_their_certificates_are_checked(problem):
    problem = problem.at_need()
    best = best_period(problem)
    known = bounds.heaviest_unit(problem).seconds
    claims = [dataclasses.replace(f(problem), proof=f.__name__) for f in ARGUMENTS]
    claims += [
        bounds.lower_bound(problem),
        dataclasses.replace(copied_weights(problem, known), proof="copied_weights"),
        windows_bound(problem, known, 1.0),
    ]
    outcome, _ = solved(Ideals(), problem)
    if outcome.bound is not None:
        claims.append(outcome.bound)
    for bound in claims:
        assert bound.seconds <= best * (1 + 1e-9), bound
        assert verify_bound(problem, bound), bound
        if best < float("inf"):
            for proof in (bound.proof, "link_cuts", "ideals", "cpsat"):
                assert not verify_bound(problem, LowerBound(best * 1.0001, "", proof)), bound


@given(connected_problems())
@settings(max_examples=40)
def test_windows_hold_every_partition_within_the_period(problem):
    outcome, found = solved(Ideals(), problem)
    if outcome.chip_of is None:
        return
    graph = rule_graph(problem)
    windows = chip_windows(problem, found)
    chips = outcome.chip_of[graph.units]
    assert (windows.low <= chips).all()
    assert (chips <= windows.high).all()
