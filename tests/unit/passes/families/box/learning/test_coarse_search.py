"""Search on a coarse step spends what it may, and believes the whole step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator, StepResults
from mcm_hardware.families.box.step_simulator import StepSimulator
from mcm_passes.families.box.learning.pretrained import (
    JUDGED_STARTS,
    Surrogate,
    coarse_search,
    surrogate_of,
)
from mcm_passes.families.box.search.annealing import Cooling, Judge
from mcm_passes.families.box.search.coarse_steps import prepared
from tests.generators.step_problems import random_placements


def surrogate_for(case) -> Surrogate:
    def simulate(problem: StepProblem, conditions: StepConditions) -> StepEvaluator:
        return StepSimulator(problem, case.box, conditions)

    return surrogate_of(prepared(case.problem, case.box), simulate, "fifo")


def searched(
    case, evaluations: int, coarse: int, surrogate: Surrogate | None = None
) -> tuple[Judge, Surrogate, np.ndarray]:
    rng = np.random.default_rng(1)
    surrogate = surrogate or surrogate_for(case)
    starts = random_placements(rng, case.problem, 12)
    judge = Judge((case.evaluator,), 10**9)
    coarse_search(surrogate, judge, starts, Cooling(coarse), evaluations, rng)
    return judge, surrogate, starts


@pytest.mark.parametrize("evaluations", [1, 5, 30])
@pytest.mark.parametrize("coarse", [1, 12, 400])
def test_spends_what_it_may(case, evaluations: int, coarse: int) -> None:
    judge, surrogate, _ = searched(case, evaluations, coarse)
    assert min(JUDGED_STARTS, evaluations, coarse) <= judge.evaluations <= evaluations
    assert surrogate.evaluations <= coarse
    assert judge.best_score == case.evaluator.evaluate(judge.best[None]).score[0]


def test_is_reproducible_and_finds_better_than_starts(case) -> None:
    one, _, starts = searched(case, 30, 400)
    same, _, _ = searched(case, 30, 400)
    assert one.history == same.history
    assert JUDGED_STARTS < one.evaluations <= 30
    assert one.best_score < case.evaluator.evaluate(starts).score.min()


def test_devices_and_placements_stand_for_each_other(case) -> None:
    surrogate = surrogate_for(case)
    units, rng = surrogate.units, np.random.default_rng(0)
    devices = rng.integers(0, case.box.num_devices, units.count).astype(np.int32)
    place = surrogate.placement(devices)
    assert (surrogate.placement(surrogate.devices(place)) == place).all()


@dataclass
class _Liar:
    """Says the less, the longer the step of groups takes."""

    inner: StepEvaluator
    name: str = "liar"

    def evaluate(self, placements: np.ndarray) -> StepResults:
        told = self.inner.evaluate(placements)
        none = np.zeros_like(told.overflow)
        return StepResults(1.0 / told.seconds, told.peak_bytes, told.busy_s, told.copy_s, none)


def test_what_the_whole_step_denies_is_not_believed(case) -> None:
    surrogate = surrogate_for(case)
    surrogate.evaluator = _Liar(surrogate.evaluator)  # type: ignore[assignment]
    judge, _, _ = searched(case, 30, 400, surrogate)
    assert judge.best_score == judge.history[-1][1]
    assert judge.best_score <= judge.history[0][1]


def test_ends_where_nothing_may_move(case) -> None:
    surrogate = surrogate_for(case)
    surrogate.step.speeds.resize(1, refcheck=False)
    judge, _, starts = searched(case, 30, 400, surrogate)
    assert judge.evaluations == JUDGED_STARTS
    assert surrogate.evaluations == len(starts)
