"""Batches of placements: what runs together gets one device that it may have; the best stays."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.box.search.annealing import Judge
from mcm_passes.families.box.search.units import fallbacks


def test_placements_keep_to_the_rules(case):
    ways = fallbacks(case.problem, case.box)
    devices = np.random.default_rng(0).integers(0, 3, (5, case.problem.num_groups))
    placements = ways.placements(devices[:, case.problem.together])
    rows = [ways.placement(row) for row in devices[:, case.problem.together]]
    assert np.array_equal(placements, rows)
    case.evaluator.evaluate(placements)
    for k in range(5):
        for n in range(case.problem.num_ops):
            asked = devices[k, case.problem.together[n]]
            if case.problem.allowed[n, asked]:
                assert placements[k, n] == asked
            else:
                members = case.problem.together == case.problem.together[n]
                times = case.problem.time_s[members][:, case.box.kind_of].sum(axis=0)
                may = np.flatnonzero(case.problem.allowed[n])
                assert placements[k, n] == may[times[may].argmin()]


def test_a_judge_takes_batches_and_refuses_scores_that_are_no_numbers(counted):
    judge = Judge((counted(np.array([3.0, 1.0])),), 4)
    placements = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 1]], np.int32)
    judge.results(placements)
    judge.results(placements[:1])
    assert (judge.evaluations, judge.left, judge.best_score) == (4, 0, 3.0)
    assert judge.best.tolist() == [1, 1, 1]
    assert judge.history == [(1, 7.0), (2, 3.0)]
    with pytest.raises(CompileError, match="MCM-D060") as caught:
        Judge((counted(np.array([np.nan, 1.0])),), 9).results(placements[:2])
    assert "2 of 2" in str(caught.value)
