"""Tests for scores that tell about both orders of queues."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import (
    StepConditions,
    StepEvaluator,
    StepResults,
    StepTrace,
)
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_hardware.families.box.step_simulator import StepSimulator
from mcm_passes.families.box.placers import (
    LocalSearch,
    RobustScore,
    plain_placements,
    reference_times,
)
from mcm_passes.families.box.search.annealing import Judge
from mcm_passes.families.box.search.units import layered_placements
from tests.generators.unrolled_steps import UnrolledSize, unrolled_box, unrolled_step

SIZE = UnrolledSize(layers=2, steps=5, hidden=1024, batch=64, vocabulary=8000)


@pytest.fixture(scope="module")
def network() -> tuple[StepProblem, Box]:
    box = unrolled_box(2)
    return unrolled_step(SIZE, box), box


class _Table:
    """Knows seconds and scores of placements of one op by its device."""

    name = "table"

    def __init__(self, seconds: Sequence[float], overflow: float = 0.0) -> None:
        self.seconds, self.overflow, self.asked = np.array(seconds), overflow, 0

    def evaluate(self, placements: np.ndarray) -> StepResults:
        self.asked += len(placements)
        seconds: Floats = self.seconds[placements[:, 0]]
        none = np.zeros((len(placements), 1))
        overflow = np.full(len(placements), self.overflow)
        return StepResults(seconds, none.astype(np.int64), none, none, overflow)

    def trace(self, placement: np.ndarray) -> StepTrace:
        raise AssertionError(placement)


def _place(device: int) -> np.ndarray:
    return np.array([device], np.int32)


def _judge(first: _Table, second: _Table, worst: float) -> Judge:
    references = np.array([2.0, 1.0])
    return Judge((first, second), 99, references=references, worst=worst)


def test_the_worse_order_counts_over_its_reference() -> None:
    judge = _judge(_Table([2.0, 1.0, 1.8]), _Table([1.0, 1.0, 0.9]), worst=1.0)
    # As long as the references: their mean.
    assert judge.score(_place(0)) == pytest.approx(2.0**0.5)
    assert judge.score(_place(1)) == pytest.approx(2.0**0.5)
    assert judge.score(_place(2)) == pytest.approx(0.9 * 2.0**0.5)
    assert judge.best.tolist() == [2]


def test_between_the_worse_and_the_mean_lies_their_geometric_mean() -> None:
    for worst in (0.0, 0.25, 1.0):
        judge = _judge(_Table([1.0]), _Table([0.9]), worst)
        mean, worse = 0.9**0.5, 0.9 * 2.0**0.5
        assert judge.score(_place(0)) == pytest.approx(mean ** (1.0 - worst) * worse**worst)


def test_the_order_that_was_worse_is_asked_first_and_may_be_enough() -> None:
    first, second = _Table([1.0, 1.0]), _Table([0.9, 1.2])
    judge = _judge(first, second, worst=1.0)
    known = judge.score(_place(0))
    assert judge.score(_place(1), worth=known) == np.inf
    assert (first.asked, second.asked, judge.evaluations) == (1, 2, 3)


def test_references_are_times_of_the_placement_that_is_best_in_the_first_order() -> None:
    first, second = _Table([3.0, 2.0], overflow=0.5), _Table([1.0, 1.5], overflow=9.0)
    times = reference_times((first, second), np.array([[0], [1]], np.int32))
    assert times.tolist() == [2.0, 1.5]
    assert (first.asked, second.asked) == (2, 1)
    idle = _Table([0.0])
    assert (reference_times((idle, idle), np.array([[0]], np.int32)) > 0.0).all()


def test_plain_placements_are_layers_or_stripes(network: tuple[StepProblem, Box]) -> None:
    problem, box = network
    assert np.array_equal(plain_placements(problem, box), layered_placements(problem, box))
    nameless = dataclasses.replace(problem, layer=np.full(problem.num_ops, -1, np.int32))
    stripes = plain_placements(nameless, box)
    assert len(stripes) > 2
    # The simulator refuses what is not allowed.
    assert np.isfinite(StepSimulator(nameless, box, StepConditions()).evaluate(stripes).score).all()


def _request(
    problem: StepProblem, box: Box, evaluator: StepEvaluator, evaluations: int
) -> PlacerRequest:
    return PlacerRequest(
        problem,
        box,
        evaluator,
        evaluations=evaluations,
        simulate=lambda other, conditions: StepSimulator(other, box, conditions),
    )


def test_references_are_spent_and_asked_for_only_where_they_count(
    network: tuple[StepProblem, Box],
) -> None:
    problem, box = network
    own = StepSimulator(problem, box, StepConditions())
    request = _request(problem, box, own, 100)
    robust = RobustScore().judge(request)
    assert (robust.left, robust.evaluations, len(robust.references)) == (97, 3, 2)
    for score in (RobustScore(robust=False), RobustScore(worst=0.0)):
        judge = score.judge(request)
        assert (judge.left, judge.worst, len(judge.references)) == (100, 0.0, 0)
    alone = RobustScore().judge(dataclasses.replace(request, simulate=None))
    assert (len(alone.evaluators), alone.worst, alone.left) == (1, 0.0, 100)


def test_what_search_gains_it_gains_in_either_order(network: tuple[StepProblem, Box]) -> None:
    problem, box = network
    orders = [StepConditions(), StepConditions(order="critical_path")]
    simulators = [StepSimulator(problem, box, one) for one in orders]
    references = reference_times(simulators, plain_placements(problem, box))

    def over(search: LocalSearch) -> Floats:
        found = search.place(_request(problem, box, simulators[0], 600))
        place = found.device_of[None]
        times = [simulator.evaluate(place).seconds[0] for simulator in simulators]
        return np.array(times) / references

    first_alone, either = over(LocalSearch(robust=False)), over(LocalSearch())
    assert either.max() < 0.98
    assert np.ptp(either) < np.ptp(first_alone)
