"""The pipeline policy, its look-ahead and its checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from deep_q_study.network import initial_weights
from pipeline_policy.policy_environment import (
    LARGEST_REWARD,
    POLICY_LAYOUT,
    REWARD_SCALE,
    CaseEnvironment,
    QNetwork,
    first_weights,
)
from pipeline_policy.policy_features import (
    CONTEXT,
    FEATURES,
    NUM_CANDIDATES,
    SHORTER,
    FeatureArrays,
    featurise,
)
from pipeline_policy.policy_inference import (
    PIPELINE_POLICIES,
    PipelinePolicyCard,
    infer_pipeline,
    load_pipeline_policy,
    look_ahead_alone,
    prepare_case,
)
from pipeline_policy.policy_lookahead import (
    REFINE,
    ahead_tables,
    look_ahead,
    part_rest,
    place_rest,
    places_of_rest,
    quick_length_s,
    quick_part,
)
from pipeline_policy.random_cases import random_cases

from mcm_compiler.diagnostics import CompileError
from mcm_models.pipelines.kernels import balanced_pipeline, ideal_part, length_s, unchecked_length_s
from mcm_models.pipelines.problem import Pipeline, PipelineProblem, Schedule, pipeline_tables
from mcm_passes.parallelism.pipelines.optimal_pipeline import best_pipeline

UNTRAINED = QNetwork(POLICY_LAYOUT, initial_weights(POLICY_LAYOUT, 0))


def same_length(problem: PipelineProblem, found: Pipeline) -> bool:
    ends = problem.num_parts, problem.devices.num_devices
    parts, places = (
        np.array([0, *inner, end], np.int64)
        for inner, end in zip((found.cuts, found.devices), ends, strict=True)
    )
    return found.length_s == pytest.approx(length_s(pipeline_tables(problem), parts, places))


def test_cases_depend_on_seed_and_number_alone() -> None:
    few, more = random_cases(2, 5), random_cases(4, 5)
    for left, right in zip(few, more, strict=False):
        np.testing.assert_array_equal(left.forward_s, right.forward_s)
        assert left.num_parts == 128


@pytest.mark.parametrize("beam", [1, 8])
def test_any_policy_gives_a_valid_pipeline(beam: int) -> None:
    for problem in random_cases(10, 3):
        found = infer_pipeline(UNTRAINED, pipeline_tables(problem), problem.stages, beam)
        assert np.isfinite(found.length_s)
        assert same_length(problem, found)


@pytest.mark.parametrize("seed", [4, 18, 34])
def test_the_reward_is_the_gain_over_the_look_ahead(seed: int) -> None:
    case = prepare_case(random_cases(1, seed)[0])
    # A longer known pipeline, so that there is something to gain.
    case = dataclasses.replace(case, known_s=1.01 * case.known_s)
    environment = CaseEnvironment([case], 0)
    state, alive = environment.reset(2), np.ones(2, bool)
    for _ in range(environment.horizon):
        seen = environment.observe(state)
        assert np.isfinite(seen.candidates).all()
        assert seen.mask.any(axis=1).all()
        action = np.argmax(seen.mask, axis=1)
        _, over = environment.step(state, action, alive)
        alive &= ~over
    assert not alive.any()
    length = length_s(case.tables, state.parts[0], state.places[0])
    gain = case.known_s / min(length, state.shortest[0]) - 1.0
    assert 0.0 < state.gain[0] <= LARGEST_REWARD
    assert state.gain[0] == pytest.approx(min(REWARD_SCALE * gain, LARGEST_REWARD), rel=1e-5)


@pytest.mark.parametrize("beam", [1, 8])
def test_no_policy_is_worse_than_the_look_ahead_alone(beam: int) -> None:
    for problem in random_cases(12, 31):
        t = pipeline_tables(problem)
        alone = infer_pipeline(look_ahead_alone(), t, problem.stages, 1)
        found = infer_pipeline(UNTRAINED, t, problem.stages, beam)
        assert found.length_s <= alone.length_s * (1.0 + 1e-12)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    card = PipelinePolicyCard(POLICY_LAYOUT.hidden, trained_on={"seed": 3})
    PIPELINE_POLICIES.save(path, UNTRAINED.weights, card)
    network, read = load_pipeline_policy(path)
    assert read == card
    assert network.layout == POLICY_LAYOUT
    for name, weight in UNTRAINED.weights.items():
        np.testing.assert_array_equal(network.weights[name], weight)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data.replace(b"features_version", b"features_versiom"),
        lambda data: data.replace(b"value/bias", b"value/biaz"),
    ],
)
def test_damaged_checkpoints_are_diagnosed(tmp_path: Path, damage) -> None:
    path = tmp_path / "policy.safetensors"
    PIPELINE_POLICIES.save(path, UNTRAINED.weights, PipelinePolicyCard(POLICY_LAYOUT.hidden))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CompileError) as caught:
        load_pipeline_policy(path)
    assert caught.value.diagnostics[0].code in ("MCM-L001", "MCM-L003")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    weights = {name: np.full_like(w, np.nan) for name, w in UNTRAINED.weights.items()}
    PIPELINE_POLICIES.save(path, weights, PipelinePolicyCard(POLICY_LAYOUT.hidden))
    with pytest.raises(CompileError):
        load_pipeline_policy(path)


def test_the_policy_of_the_record_is_near_the_optimum() -> None:
    network, _ = load_pipeline_policy()
    gaps = []
    for problem in random_cases(12, 1):
        exact = best_pipeline(problem)
        assert exact is not None
        found = infer_pipeline(network, pipeline_tables(problem), problem.stages)
        gaps.append(found.length_s / exact.length_s - 1.0)
    assert np.mean(gaps) < 0.001
    assert max(gaps) <= 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_quick_formulas_are_those_of_the_kernels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_cases(3, 21)[seed]
    for schedule in ("1f1b", "gpipe"):
        t = pipeline_tables(dataclasses.replace(problem, schedule=schedule))
        q = ahead_tables(t)
        count, devices, stages = problem.num_parts, problem.devices.num_devices, problem.stages
        for _ in range(20):
            parts, places = (
                np.array([0, *np.sort(rng.choice(end - 1, stages - 1, False) + 1), end])
                for end in (count, devices)
            )
            assert quick_length_s(q, parts, places) == pytest.approx(
                unchecked_length_s(t, parts, places), rel=1e-12
            )
            for k in range(stages - 1):
                i, a, b = int(parts[k]), int(places[k]), int(places[k + 1])
                if i <= count - stages + k:
                    assert quick_part(q, i, a, b, stages - k) == ideal_part(t, i, a, b, stages - k)


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_looking_ahead_is_no_longer_than_its_start_and_keeps_what_is_decided(
    stages: int, schedule: Schedule
) -> None:
    for problem in random_cases(4, 22):
        t = pipeline_tables(dataclasses.replace(problem, schedule=schedule))
        q = ahead_tables(t)
        parts, places = balanced_pipeline(t, stages)
        for stage in range(stages - 1):
            for placed in (False, True):
                ahead_parts, ahead_places = parts.copy(), places.copy()
                middle = int(parts[stage + 1])
                variants = places_of_rest(q, parts, places, stage, middle, 4)
                length = look_ahead(q, ahead_parts, ahead_places, stage, placed, variants)
                known = stage + 2 if placed else stage + 1
                np.testing.assert_array_equal(ahead_parts[:known], parts[:known])
                np.testing.assert_array_equal(ahead_places[: stage + 2], places[: stage + 2])
                assert length == pytest.approx(length_s(t, ahead_parts, ahead_places))
                assert (np.diff(ahead_parts) > 0).all()
                assert (np.diff(ahead_places) > 0).all()
                if stages <= 4 and not placed:
                    assert length <= length_s(t, parts, places) * (1.0 + 1e-12)


def test_the_rest_is_the_shortest_of_all_device_cuts_with_balanced_or_thin_stages() -> None:
    problem = random_cases(3, 24)[2]
    t = pipeline_tables(problem)
    q = ahead_tables(t)
    count, devices, stages = problem.num_parts, problem.devices.num_devices, 4
    first = int(np.flatnonzero(np.diff(problem.devices.server_of))[0]) + 1
    parts, places = np.zeros(5, np.int64), np.array([0, first, 0, 0, devices])
    parts[4] = count
    least = np.inf
    for one in range(first + 1, devices - 1):
        for two in range(one + 1, devices):
            trial, at = parts.copy(), np.array([0, first, one, two, devices])
            least = min(least, part_rest(q, trial, at, 0))
    assert place_rest(q, parts, places, 0, 1) == pytest.approx(least, rel=1e-12)
    assert quick_length_s(q, parts, places) == pytest.approx(least, rel=1e-12)
    assert len(np.unique(places)) == stages + 1


def test_a_stage_on_one_device_may_be_thin() -> None:
    """What balance alone misses: the optimum leaves the first device with next to no work."""
    problem = random_cases(203, 9)[202]
    exact = best_pipeline(problem)
    assert exact is not None
    assert exact.devices[0] == 1
    assert exact.cuts[0] == 1
    t = pipeline_tables(problem)
    q = ahead_tables(t)
    stages, devices = problem.stages, problem.devices.num_devices
    parts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    parts[-1], places[-1], places[1] = problem.num_parts, devices, 1
    none = np.zeros((0, stages + 1), np.int64)
    assert look_ahead(q, parts, places, 0, False, none) <= 1.02 * exact.length_s
    assert parts[1] <= 1 + REFINE


def test_learning_begins_with_the_look_ahead() -> None:
    problem = random_cases(1, 23)[0]
    t, stages = pipeline_tables(problem), problem.stages
    parts, places = balanced_pipeline(t, stages)
    rows = np.zeros((NUM_CANDIDATES, FEATURES), np.float32)
    context = np.zeros(CONTEXT, np.float32)
    mask = np.zeros(NUM_CANDIDATES, np.bool_)
    plan = np.zeros((2, stages + 1), np.int64)
    q = ahead_tables(t)
    seen = FeatureArrays(rows, context, mask, plan)
    _, top, length = featurise(t, q, parts, places, 0, False, seen)
    assert length == pytest.approx(length_s(t, *plan))
    assert rows[top, SHORTER] == 0.0
    assert (rows[mask, SHORTER] <= 1.0 + 1e-5).all()
    for seed in (None, 3):
        start = QNetwork(POLICY_LAYOUT, first_weights(seed))
        assert np.argmax(start.values(rows, context, mask)) == top
    assert first_weights(3)["layer0/kernel"][:, 1].any()
