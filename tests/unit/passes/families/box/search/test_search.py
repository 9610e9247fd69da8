"""Tests for units, judges, starts and walks."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepResults
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_hardware.families.box.step_simulator import StepSimulator
from mcm_passes.families.box.placers import evaluators_under
from mcm_passes.families.box.search.annealing import Cooling, Judge, anneal
from mcm_passes.families.box.search.coarse_steps import devices_of_units, prepared
from mcm_passes.families.box.search.units import fallbacks, striped_starts
from tests.generators.step_problems import random_box, random_placements, random_step


class _Scores:
    """Says what it was told to say, one number for each call."""

    name = "told"

    def __init__(self, *scores: float) -> None:
        self.scores, self.asked = list(scores), 0

    def evaluate(self, placements: np.ndarray) -> StepResults:
        self.asked += 1
        none = np.zeros((1, 1))
        score = np.array([self.scores.pop(0)])
        return StepResults(score, none.astype(np.int64), none, none, np.zeros(1))


def _place(number: int) -> np.ndarray:
    return np.array([number], np.int32)


def test_a_judge_remembers_the_best_and_counts() -> None:
    judge = Judge((_Scores(3.0, 2.0, 5.0),), 3)
    assert [judge.score(_place(k)) for k in range(3)] == [3.0, 2.0, 5.0]
    assert (judge.best.tolist(), judge.best_score, judge.may_ask) == ([1], 2.0, False)
    assert judge.history == [(1, 3.0), (2, 2.0)]


def test_a_judge_takes_the_geometric_mean_and_gives_up_early() -> None:
    first, second = _Scores(1.0, 1.5, 0.9), _Scores(4.0, 2.5)
    judge = Judge((first, second), 9)
    assert judge.score(_place(0)) == pytest.approx(2.0)
    # Under the first conditions 1 is as good as 2 in the mean: 1.5 is not worth a second look.
    assert judge.score(_place(1), worth=2.1) == np.inf
    assert second.asked == 1
    assert judge.score(_place(2), worth=2.1) == pytest.approx(1.5)
    assert judge.evaluations == 5


def test_a_judge_weighs_conditions() -> None:
    judge = Judge((_Scores(1.0), _Scores(8.0)), 2, weights=np.array([2.0, 1.0]))
    assert judge.score(_place(0)) == pytest.approx(2.0)


def test_steps_without_work_have_a_score() -> None:
    judge = Judge((_Scores(0.0, 0.0), _Scores(0.0, 0.0)), 4)
    assert [judge.score(_place(k)) for k in range(2)] == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize("seed", range(6))
def test_wanted_devices_become_placements_that_are_allowed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box = random_box(rng, 2)
    problem = random_step(rng, box, 30)
    ways = fallbacks(problem, box)
    for device in range(box.num_devices):
        place = ways.placement(np.full(problem.num_ops, device))
        StepSimulator(problem, box, StepConditions()).evaluate(place[None])
        free = problem.allowed[:, device]
        assert (place[free] == device).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_keeps_to_what_is_allowed_and_finds_what_is_no_worse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box = random_box(rng, 2)
    problem = random_step(rng, box, 40)
    step = prepared(problem, box)
    units = step.pieces(2)
    judge = Judge((StepSimulator(problem, box, StepConditions()),), 80)
    start = devices_of_units(
        units, random_placements(rng, problem, 1)[0], step.duration, box.num_devices
    )
    begin = judge.score(step.ways.placement(start[units.of_op]))
    best = anneal(units, start, step.ways, step.speeds, judge, rng, Cooling(60))
    assert judge.best_score <= begin
    assert judge.evaluations <= 80
    # The simulator refuses what is not allowed.
    assert judge.score(step.ways.placement(best[units.of_op])) == judge.best_score


def test_starts_use_fast_devices_alone() -> None:
    rng = np.random.default_rng(1)
    box = random_box(rng, 3)
    step = prepared(random_step(rng, box, 60), box)
    units = step.whole_clusters()
    starts = list(striped_starts(units, step.first_uses(), step.speeds))
    assert len({tuple(start.tolist()) for start in starts}) > 2
    assert {int(d) for start in starts for d in start} <= {1, 2, 3}


def test_conditions_of_a_robust_score_are_both_orders_of_queues() -> None:
    rng = np.random.default_rng(2)
    box = random_box(rng)
    problem = random_step(rng, box)
    asked: list[StepConditions] = []

    def simulate(_problem: object, conditions: StepConditions) -> _Scores:
        asked.append(conditions)
        return _Scores()

    own: Any = _Scores()
    alone = PlacerRequest(problem, box, own, evaluations=100, seed=5)
    request = dataclasses.replace(alone, simulate=simulate)  # type: ignore[arg-type]
    assert len(evaluators_under(request, robust=True)) == 2
    assert [conditions.order for conditions in asked] == ["fifo", "critical_path"]
    assert evaluators_under(request, robust=False) == (own,)
    assert evaluators_under(alone, robust=True) == (own,)
