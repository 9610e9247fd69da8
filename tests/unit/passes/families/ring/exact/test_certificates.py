"""Certificates of graphs too large for all ancestors to be collected."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_compiler.contracts.partition import LowerBound
from mcm_passes.families.ring import proof_checkers
from mcm_passes.mapping.bound_checks import chain_check
from mcm_passes.mapping.bounds import bounds
from mcm_passes.mapping.bounds.bounds import outputs_passed_on
from tests.generators.partition_problems import make_problem
from tests.oracles.shown_bounds import verify_bound


def ladder(rungs, heavy_us=9.0, light_us=1.0):
    """Heavy units in a row, and between two of them two light ones side by side."""
    compute, edges = [heavy_us], []
    for _ in range(rungs):
        top = len(compute) - 1
        compute += [light_us, light_us, heavy_us]
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    return compute, edges


def chain_bound(problem):
    return dataclasses.replace(bounds.chain_of_units(problem), proof="chain_of_units")


def test_a_chain_of_many_units_is_checked():
    compute, edges = ladder(3000)
    # Too few chips for the work to be what matters: every chip but the last wastes a part.
    problem = make_problem(compute, edges, chips=1200)
    bound = chain_bound(problem)
    assert problem.num_units > bounds.MAX_CLOSURE_UNITS
    assert bound.seconds > float(problem.compute_s.sum()) / 1200 * 1.01
    assert verify_bound(problem, bound)
    assert not verify_bound(problem, dataclasses.replace(bound, seconds=bound.seconds * 1.001))


def test_what_is_beside_the_chain_is_left_out():
    compute, edges = ladder(1500)
    end = len(compute)
    # A second beginning and a second end, which no other unit has to do with.
    edges = [(u + 1, v + 1) for u, v in edges] + [(0, end), (end - 1, end + 1)]
    problem = make_problem([0.5, *compute, 0.5], edges, chips=700)
    bound = chain_bound(problem)
    assert bound.seconds > float(problem.compute_s.sum()) / 700 * 1.01
    assert verify_bound(problem, bound)
    assert not verify_bound(problem, dataclasses.replace(bound, seconds=bound.seconds * 1.001))


def test_no_check_of_a_large_graph_looks_at_more_than_its_edges(monkeypatch):
    """Each edge is walked a bounded number of times, however many units there are."""
    walks = []
    alone = chain_check._alone

    def counted(graph, work):
        walks.append(sum(map(len, graph.following.values())))
        return alone(graph, work)

    monkeypatch.setattr(chain_check, "_alone", counted)
    for name in ("plain_windows", "crosses_at_least", "IdealCheck"):
        monkeypatch.setattr(proof_checkers, name, None)
    compute, edges = ladder(2000)
    problem = make_problem(compute, edges, chips=1200)
    assert not verify_bound(problem, LowerBound(1.0, "CP-SAT says so", "cpsat"))
    assert walks
    assert all(walk <= len(edges) for walk in walks)
    assert len(walks) <= 2 * (1 + chain_check.ENDS**2)


def test_articulation_units_need_not_have_work_beside_them_only():
    # The ends have no work: they are beside each other, and yet all work is in one chain.
    problem = make_problem([0, 0, 3, 3, 3, 0], [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)], chips=2)
    assert chain_check.chain_does_not_fit(problem, 6e-6 * (1 - 1e-8))
    assert not chain_check.chain_does_not_fit(problem, 6e-6 * (1 + 1e-8))


@pytest.mark.parametrize(
    ("compute", "relay_us", "best_us"),
    [
        # Two heavy parts, one on each chip; the later one passes the other's output on.
        ([10, 10, 5], 2.0, 12.0),
        # The unit that joins them is cheaper than the relay.
        ([10, 10, 1], 2.0, 11.0),
        # Three parts: the last passes two outputs on.
        ([10, 10, 10, 9], 2.0, 14.0),
        # The lighter one may be the last.
        ([10, 1, 9], 2.0, 3.0),
        # Two may share a chip.
        ([5, 5, 20], 100.0, 10.0),
    ],
)
def test_the_last_of_several_parts_passes_on_what_the_others_made(compute, relay_us, best_us):
    parts = len(compute) - 1
    problem = make_problem(compute, [(u, parts) for u in range(parts)], chips=4, relay_us=relay_us)
    bound = dataclasses.replace(outputs_passed_on(problem), proof="outputs_passed_on")
    assert bound.seconds == pytest.approx(best_us * 1e-6)
    assert verify_bound(problem, bound)
    assert not verify_bound(problem, dataclasses.replace(bound, seconds=bound.seconds * 1.0001))
    strict = dataclasses.replace(problem, routing="strict")
    assert outputs_passed_on(strict).seconds == 0.0
    assert not verify_bound(strict, bound)


def test_more_parts_than_chips_cannot_all_be_alone():
    problem = make_problem([1] * 6, [(u, 5) for u in range(5)], chips=3, relay_us=0.1)
    bound = dataclasses.replace(outputs_passed_on(problem), proof="outputs_passed_on")
    assert bound.seconds == pytest.approx(1.4e-6)
    assert verify_bound(problem, bound)


def test_parts_that_only_clones_join_prove_nothing():
    problem = make_problem([1, 10, 10], [(0, 1), (0, 2)], clonable=[0])
    assert outputs_passed_on(problem).seconds == 0.0
    assert np.all(problem.compute_s > 0.0)
