"""Moves of ops that help, against all of them tried; pins that are in the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcm_compiler.certificate.claims import Certificate, Claim, ClaimScope
from mcm_compiler.report.advice.moves import find_moves, pin_of
from tests.generators.partition_problems import connected_problems, forward_placement, make_problem
from tests.oracles.single_moves import faster_moves, plain_period


def certificate(problem, placement, *, pipelines=1, claims=(), pins=()):
    chips = problem.num_chips
    return Certificate(
        problem=problem,
        placement=np.array(placement, np.int32),
        period_s=plain_period(problem, placement),
        problem_model="pipeline",
        cost_model="roofline",
        scope=ClaimScope(chips * pipelines, pipelines, chips, any_number=False),
        claims=claims,
        pins=pins,
    )


def relayed(problem):
    """The problem under relay routing, with memory for everything and nothing streamed."""
    limits = replace(
        problem.limits,
        sram_bytes=(1 << 30,) * problem.num_chips,
        stream_bytes_per_s=0.0,
        stream_total_bytes_per_s=0.0,
        forwarding="engine",
    )
    return replace(problem, routing="relay", limits=limits)


@given(connected_problems(), st.sampled_from([1, 3]), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_moves_that_help_are_those_of_all_tried(problem, pipelines, random):
    problem = relayed(problem)
    placement = forward_placement(problem, random)
    assume(math.isfinite(plain_period(problem, placement)))
    # Pins hold units where they are, as in any placement that was found.
    pins = np.where(problem.pinned_chip >= 0, placement, -1).astype(np.int32)
    problem = replace(problem, pinned_chip=np.where(problem.clonable, -1, pins).astype(np.int32))
    found = find_moves(certificate(problem, placement, pipelines=pipelines))
    wanted = faster_moves(problem, placement)
    assert found.complete
    for moves, held in ((found.helpful, False), (found.pinned, True)):
        alone = {(m.unit, m.to_chip): m.period_s * pipelines for m in moves if len(m.units) == 1}
        tried = {k: s for k, s in wanted.items() if bool(problem.pinned_chip[k[0]] >= 0) is held}
        assert alone == pytest.approx(tried, rel=1e-9)
        assert [m.period_s for m in moves] == sorted(m.period_s for m in moves)
    now_s = plain_period(problem, placement)
    for move in (*found.helpful, *found.pinned):
        changed = placement.copy()
        changed[list(move.units)] = move.to_chip
        period_s = plain_period(problem, changed)
        assert move.period_s * pipelines == pytest.approx(period_s, rel=1e-9)
        assert move.gain == pytest.approx(1.0 - period_s / now_s, rel=1e-6)
        assert move.gain > 0
        assert placement[move.unit] == move.from_chip


def test_what_must_go_along_goes_along():
    problem = make_problem([1, 4, 4], [(0, 1), (1, 2)], chips=2)
    (move,) = find_moves(certificate(problem, [0, 0, 0])).helpful[:1]
    assert (move.unit, move.units, move.to_chip) == (2, (2,), 1)
    problem = make_problem([6, 1, 3], [(0, 1), (1, 2)], chips=2)
    moves = find_moves(certificate(problem, [0, 0, 0])).helpful
    assert (moves[0].unit, moves[0].units) == (1, (1, 2))
    assert moves[0].period_s == pytest.approx(6e-6)


def test_a_placement_at_its_bound_is_left_alone():
    problem = make_problem([1, 4, 4], [(0, 1), (1, 2)], chips=2)
    claims = (Claim("pipeline", 9e-6, "total_work", "made up"),)
    found = find_moves(certificate(problem, [0, 0, 0], claims=claims))
    assert (found.helpful, found.optimal) == ((), True)


def test_two_chips_that_are_full_leave_nothing_to_gain():
    problem = make_problem([4, 4, 1], [(0, 1), (1, 2)], chips=3)
    found = find_moves(certificate(problem, [0, 1, 2]))
    assert (found.helpful, found.optimal, found.elsewhere) == ((), False, True)
    assert not find_moves(certificate(make_problem([4], [], chips=1), [0])).elsewhere


def test_pins_are_respected_and_named():
    problem = make_problem([1, 4, 4], [(0, 1), (1, 2)], chips=2, pins=[(2, 0)])
    made = certificate(problem, [0, 0, 0], pins=(("other", 0), ("u2", 1), ("u[2]", 0), ("u*", 0)))
    found = find_moves(made)
    assert all(2 not in move.units for move in found.helpful)
    assert found.pinned[0].units == (2,)
    assert pin_of(made, 2) == "u[2]=0"
    assert pin_of(made, 1) is None
    assert pin_of(replace(made, pins=(("u*", 0), ("u2", 0))), 2) == "u2=0"


def test_too_many_moves_are_said_to_be_left_out(monkeypatch):
    monkeypatch.setattr("mcm_compiler.report.advice.moves.EVALUATED", 8)
    wide = make_problem([9] * 12, [], chips=4)
    found = find_moves(certificate(wide, [0] * 12))
    assert not found.complete
    assert len(found.helpful) <= 8
