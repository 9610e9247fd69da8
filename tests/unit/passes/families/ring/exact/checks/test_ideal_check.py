"""The check of order ideals weighs few of them where periods leave chips little time."""

from __future__ import annotations

import dataclasses

import pytest

from mcm_passes.families.ring.exact.ring_proof_checkers import no_chain_is_faster
from tests.generators.branching_problems import branching_problem

FEW = 6_000


@pytest.mark.parametrize("speeds", [(1.0,) * 4, (1.0, 2.0, 1.0, 0.5)])
@pytest.mark.parametrize("asked", [{}, {"routing": "strict"}, {"pins": [(0, 0)]}])
def test_few_ideals_decide_periods_near_the_total_work(asked, speeds):
    """The last chips have no time for more than a period each, which decides what others do."""
    problem = branching_problem(chips=4, chains=3, **asked)
    limits = dataclasses.replace(problem.limits, chip_speed=speeds)
    problem = dataclasses.replace(problem, limits=limits)
    shared_s = problem.compute_s.sum() / sum(speeds)
    assert no_chain_is_faster(problem, 1.0001 * shared_s, FEW) is True
    assert no_chain_is_faster(problem, 1.02 * shared_s, FEW) is False
