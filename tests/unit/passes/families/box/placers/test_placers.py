"""Tests for placers: what they find, what they refuse."""

import dataclasses

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.step_problems import random_box, random_step
from tests.generators.unrolled_steps import UnrolledSize, unrolled_box, unrolled_step

SIZE = UnrolledSize(layers=2, steps=5, hidden=1024, batch=64, vocabulary=8000)


@pytest.fixture(scope="module")
def network() -> tuple[StepProblem, Box]:
    box = unrolled_box(2)
    return unrolled_step(SIZE, box), box


def _simulator(problem: StepProblem, box: Box) -> StepEvaluator:
    return StepSimulator(problem, box, StepConditions())


def _placed(text: str, problem: StepProblem, box: Box, **asked: object) -> PlacerAnswer:
    spec = spec_text.parse_one(text)
    placer = spec_text.instantiate(PLACERS.get(spec.name), spec)
    request = PlacerRequest(
        problem,
        box,
        _simulator(problem, box),
        simulate=lambda other, conditions: StepSimulator(other, box, conditions),
        **{"evaluations": 4000, **asked},  # type: ignore[arg-type]
    )
    return placer.place(request)


def _score(answer: PlacerAnswer, problem: StepProblem, box: Box) -> float:
    return float(_simulator(problem, box).evaluate(answer.device_of[None]).score[0])


ALL = ("cpu", "single", "expert", "local_search", "portfolio")


@pytest.mark.parametrize("text", ALL)
def test_answers_keep_to_what_is_allowed_and_to_the_budget(text: str) -> None:
    rng = np.random.default_rng(4)
    box = random_box(rng, 3)
    problem = dataclasses.replace(
        random_step(rng, box, 60), layer=np.arange(60, dtype=np.int32) // 20
    )
    answer = _placed(text, problem, box, evaluations=60)
    # The simulator refuses what is not allowed.
    assert np.isfinite(_score(answer, problem, box))
    assert answer.evaluations <= 60
    again = _placed(text, problem, box, evaluations=60)
    assert np.array_equal(answer.device_of, again.device_of)


def test_the_best_device_is_better_than_the_host(network: tuple[StepProblem, Box]) -> None:
    assert _score(_placed("single", *network), *network) < _score(
        _placed("cpu", *network), *network
    )


def test_the_expert_puts_each_layer_on_a_device_of_its_own(
    network: tuple[StepProblem, Box],
) -> None:
    problem, box = network
    place = _placed("expert", problem, box).device_of
    free = problem.allowed.all(axis=1)
    first = [{int(d) for d in place[free & (problem.layer == k)]} for k in range(2)]
    assert all(len(devices) == 1 for devices in first)
    assert first[0] != first[1]


def test_search_without_names_beats_the_expert(network: tuple[StepProblem, Box]) -> None:
    problem, box = network
    nameless = dataclasses.replace(problem, layer=np.empty(0, np.int32))
    found = _score(_placed("portfolio{worst=0}", nameless, box, evaluations=600), problem, box)
    assert found < 0.97 * _score(_placed("expert", problem, box), problem, box)


def test_search_beats_the_expert_in_either_order(network: tuple[StepProblem, Box]) -> None:
    problem, box = network
    both = np.stack(
        [_placed(n, *network, evaluations=600).device_of for n in ("portfolio", "expert")]
    )
    for conditions in (StepConditions(), StepConditions(order="critical_path")):
        found, expert = StepSimulator(problem, box, conditions).evaluate(both).score
        assert found < 0.985 * expert


def test_search_goes_on_from_where_it_is_told_to(network: tuple[StepProblem, Box]) -> None:
    start = _placed("local_search", *network, evaluations=200).device_of
    known = float(_simulator(*network).evaluate(start[None]).score[0])
    for text in ("local_search{robust=false}", "portfolio{robust=false}"):
        answer = _placed(text, *network, evaluations=20, start=start)
        assert _score(answer, *network) <= known


def test_the_expert_needs_layers() -> None:
    rng = np.random.default_rng(0)
    box = random_box(rng)
    with pytest.raises(CompileError) as caught:
        _placed("expert", random_step(rng, box), box)
    assert caught.value.diagnostics[0].code == "MCM-D050"


@pytest.mark.parametrize("members", ["portfolio", ";"])
def test_a_portfolio_needs_members_other_than_itself(
    network: tuple[StepProblem, Box], members: str
) -> None:
    with pytest.raises(CompileError) as caught:
        _placed(f"portfolio{{members={members}}}", *network)
    assert caught.value.diagnostics[0].code == "MCM-D053"


@pytest.mark.parametrize("name", ["0", "1", "2", "3"])
def test_levels_name_placers_and_spend_less_on_larger_steps(name: str) -> None:
    level = load_level(name)
    spec = spec_text.parse_one(level.placer)
    assert spec_text.instantiate(PLACERS.get(spec.name), spec)
    assert level.placements_of(100) >= level.placements_of(10**5) >= 100
