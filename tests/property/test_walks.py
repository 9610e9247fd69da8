"""Walks of local search against the fast model: what they keep up to date, and what they allow."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.moves.placement_state import ARRIVED, Loads
from mcm_passes.families.ring.moves.walks import Walker
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.generators.partition_problems import connected_problems


def assert_same_loads(one: Loads, other: Loads) -> None:
    assert np.array_equal(one.blocks[:ARRIVED], other.blocks[:ARRIVED])
    np.testing.assert_allclose(one.amount, other.amount, rtol=1e-9, atol=1e-15)


@given(connected_problems(), st.integers(0, 1000), st.integers(1, 300), st.booleans())
@settings(max_examples=80)
def test_the_best_of_a_walk_is_valid_with_the_period_of_the_fast_model(
    problem, seed, steps, at_need
):
    problem = problem.at_need() if at_need else problem
    rng = np.random.default_rng(seed)
    start = ContiguousDp().solve(problem, AnalyticPeriods(problem), rng, Budget()).chip_of
    if start is None:
        return
    walker = Walker(problem, period(problem, start), memory=20)
    walk = walker.walk(start, streams(rng, 1))
    for heat in (0.0, 0.3):
        walker.advance(walk, steps, heat)
        state, again = walk.state, walker.walk(walk.state.chip, streams(rng, 1))
        assert {v.rule for v in evaluate(problem, state.chip).violations} <= {"memory"}
        # What was taken back is as it was, and limits of memory are limits.
        assert_same_loads(state.loads, again.state.loads)
        if not at_need:
            assert (state.loads.needed >= again.state.loads.needed).all()
        if not problem.streams:
            np.testing.assert_allclose(walk.score, again.score, rtol=1e-9)
        # Moves count memory as an estimate does, with room to spare at need.
        best = evaluate(problem, walk.best)
        if np.isfinite(walk.best_s[0]):
            assert best.valid
            if not problem.streams or not at_need:
                assert walk.best_s[0] <= period(problem, start) * (1 + 1e-12)
                np.testing.assert_allclose(walk.best_s[0], best.period_s, rtol=1e-9)
