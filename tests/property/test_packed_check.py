"""The check of packed windows confirms what the search claims, and nothing beyond the optimum."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from mcm_compiler.contracts.partition import LowerBound
from mcm_passes.families.ring.exact.packed_check import units_do_not_pack_in_order
from mcm_passes.families.ring.exact.packing_bound import PROOF, packing_bound
from mcm_passes.mapping.bounds.bounds import lower_bound, total_work
from mcm_passes.mapping.machine.evaluation import period
from tests.generators.packing_cases import bound_of, steps
from tests.generators.partition_problems import connected_problems, make_problem
from tests.oracles.best_period import best_period
from tests.oracles.shown_bounds import verify_bound


@given(connected_problems(6))
@settings(max_examples=50)
def test_claims_are_confirmed_and_wrong_ones_are_not(problem):
    best = best_period(problem)
    claim = bound_of(problem)
    assert verify_bound(problem, claim)
    if best < float("inf"):
        assert not verify_bound(problem, LowerBound(best * (1.0 + 1e-6), "", PROOF))


@pytest.mark.parametrize("chips", [2, 3])
def test_a_recurrence_is_not_ruled_out_where_it_fits(chips):
    """Two recurrences of three steps: all partitions of twelve units are few enough to try."""
    for weight, sram in ((11_000, 20_000), (4_000, 20_000), (64, 10**6)):
        problem = steps(3, 2, sram=sram, weight=weight, chips=chips)
        n = problem.num_units
        rows = _monotone_paths(n, chips)
        best = min(period(problem, row) for row in rows)
        assert np.isfinite(best)
        assert not verify_bound(problem, LowerBound(best * (1.0 + 1e-6), "", PROOF))
        known = lower_bound(problem).seconds
        claim = packing_bound(problem, 0.5 * known, best)
        assert claim.proof == PROOF
        assert verify_bound(problem, claim)


def _monotone_paths(n, chips):
    """All partitions of a chain: along it the chip stays or goes up by one."""
    found = []
    for steps_up in range(1 << (n - 1)):
        row = np.cumsum([0, *(steps_up >> k & 1 for k in range(n - 1))])
        if row[-1] < chips:
            found.append(row.astype(np.int32))
    return found


def test_weights_that_do_not_fit_together():
    problem = steps(4, 3, sram=2000, weight=1100)
    claim = bound_of(problem, 1.0)
    assert 17.99e-6 < claim.seconds <= 18e-6
    assert verify_bound(problem, claim)
    assert not verify_bound(problem, dataclasses.replace(claim, seconds=18.001e-6))
    # The weights are what it takes: with memory for all of them the claim is wrong.
    roomy = steps(4, 3, sram=10**6, weight=1100)
    assert not verify_bound(roomy, claim)


def test_units_that_are_not_divided_leave_gaps():
    edges = [(u, u + 1) for u in range(33) if u != 29] + [(25, 30)]
    problem = make_problem([1.0] * 26 + [4.0] * 8, edges, chips=5)
    claim = packing_bound(problem, total_work(problem).seconds, 20e-6)
    assert 11.99e-6 < claim.seconds <= 12e-6
    assert verify_bound(problem, claim)
    assert not verify_bound(problem, dataclasses.replace(claim, seconds=12.001e-6))


def test_pins_and_memory_alone_leave_no_chip():
    weights = [(900, [u]) for u in range(4)]
    chain = [(0, 1), (1, 2), (2, 3)]
    assert units_do_not_pack_in_order(
        make_problem([1] * 4, chain, chips=3, sram=1000, weights=weights), 1.0
    )
    assert not units_do_not_pack_in_order(
        make_problem([1] * 4, chain, chips=4, sram=1000, weights=weights), 1.0
    )
    crossed = make_problem([1] * 4, chain, chips=4, pins=[(0, 2), (3, 1)])
    assert units_do_not_pack_in_order(crossed, 1.0)
