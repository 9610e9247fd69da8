"""Search over clusters spends what it may, keeps what it began with, and follows its policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.evaluation import StepResults
from mcm_models.cluster_policy.decoding import Scorer, scorer_of
from mcm_models.cluster_policy.layout import COLUMNS, ClusterLayout, initial_weights
from mcm_passes.families.box.learning.cases import clustered_step
from mcm_passes.families.box.learning.pretrained import guided_search
from mcm_passes.families.box.search.annealing import Judge


@pytest.fixture(scope="module")
def clustered(case):
    return clustered_step(case.problem, case.box, case.evaluator)


def policy_for(speed: float) -> Scorer:
    """A policy that looks at the speed of devices alone."""
    weights = {name: 0.0 * array for name, array in initial_weights(ClusterLayout(2), 0).items()}
    weights["linear"][COLUMNS.index("speed, over that of the fastest device")] = speed
    return scorer_of(weights)


@pytest.mark.parametrize("evaluations", [1, 3, 40])
def test_spends_what_it_may_and_answers_its_best(case, clustered, evaluations: int):
    judge = Judge((case.evaluator,), 10**9)
    best = guided_search(clustered, None, judge, evaluations, np.random.default_rng(0))
    assert judge.evaluations == evaluations
    assert clustered.scores(best[None])[0] == judge.best_score


def test_a_good_start_is_not_lost(case, clustered):
    long = Judge((case.evaluator,), 10**9)
    found = guided_search(clustered, None, long, 200, np.random.default_rng(0))
    short = Judge((case.evaluator,), 10**9)
    guided_search(clustered, None, short, 2, np.random.default_rng(1), start=found)
    assert short.best_score <= long.best_score
    assert short.history[0] == (1, long.best_score)


def test_search_follows_the_policy(case, clustered):
    """Draws and moves of a policy that wants slow devices go there more than the control's."""
    simulated: list[np.ndarray] = []

    @dataclass
    class Noted:
        name: str = "noted"

        def evaluate(self, placements: np.ndarray) -> StepResults:
            simulated.append(placements)
            return case.evaluator.evaluate(placements)

    def time_of(scorer: Scorer | None) -> float:
        simulated.clear()
        guided_search(clustered, scorer, Judge((Noted(),), 10**9), 60, np.random.default_rng(0))
        places = np.concatenate(simulated)
        ops = np.arange(case.problem.num_ops)
        return float(case.problem.time_s[ops, case.box.kind_of[places]].sum(axis=1).mean())

    quick, even, slow = (time_of(one) for one in (policy_for(200.0), None, policy_for(-200.0)))
    assert quick < even < slow
