"""A training that was killed goes on to the same bytes, and not from what does not belong there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError
from mcm_models.cluster_policy.layout import PLACEMENT_POLICIES
from mcm_passes.families.box.learning.placement_trainer import (
    CARD_NAME,
    POLICY_NAME,
    STATE_NAME,
    PlacementTrainer,
)
from tests.generators.left_folders import leave_private_folder

SMALL = PlacementTrainer(
    iterations=4,
    cases=2,
    validation_cases=1,
    cases_per_iteration=1,
    placements=2,
    check_every=2,
    width=4,
)


def told(_: TrainingProgress) -> None:
    """Progress that nobody hears."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nothing stopped."""
    folder = tmp_path_factory.mktemp("training") / "whole"
    SMALL.train(TrainingRequest(folder, seed=3), told)
    return folder


def test_goes_on_to_the_same_bytes(trained: Path, tmp_path: Path):
    def killed(progress: TrainingProgress) -> None:
        # The state is of iteration 2: the third is done again.
        if progress.phase == "training" and progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SMALL.train(TrainingRequest(tmp_path, seed=3), killed)
    assert not (tmp_path / POLICY_NAME).exists()
    result = SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)
    assert result.samples == 4 * 1 * 2
    for name in (STATE_NAME, POLICY_NAME, CARD_NAME):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


@pytest.mark.parametrize("first", [1, 2, 3])
def test_more_iterations_end_as_if_asked_for_at_once(trained: Path, tmp_path: Path, first: int):
    """A short training looks at its end, too, where a longer one does not."""
    fewer = dataclasses.replace(SMALL, iterations=first)
    fewer.train(TrainingRequest(tmp_path, seed=3), told)
    begun = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fewer.train(TrainingRequest(tmp_path, seed=3, resume=True), told)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == begun
    SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)
    for name in (STATE_NAME, POLICY_NAME, CARD_NAME):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


def test_the_last_iteration_is_looked_at(tmp_path: Path):
    heard: list[TrainingProgress] = []
    result = dataclasses.replace(SMALL, iterations=1).train(
        TrainingRequest(tmp_path, seed=3), heard.append
    )
    assert np.isfinite(result.scores["score_over_single_device"])
    assert heard[-1].figures["validation"] == result.scores["score_over_single_device"]
    said = json.loads((tmp_path / CARD_NAME).read_text(encoding="utf-8"))["trained_on"]
    assert said["iterations_of_best"] == 1


def test_no_more_samples_are_told_than_there_are_cases_for(tmp_path: Path):
    wide = dataclasses.replace(SMALL, iterations=2, cases_per_iteration=1000)
    assert wide.train(TrainingRequest(tmp_path, seed=3), told).samples == 2 * 2 * 2


def test_more_placements_than_memory_has_room_for_are_refused():
    with pytest.raises(ValueError, match="placements is 1000000000, not from 2 to 4096"):
        dataclasses.replace(SMALL, placements=10**9)


def test_what_a_killed_process_was_writing_goes_when_it_is_resumed(trained: Path, tmp_path: Path):
    leave_private_folder(tmp_path)
    SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in trained.iterdir()}


def test_the_best_policy_is_written_with_its_command(trained: Path):
    weights, card = PLACEMENT_POLICIES.load(trained / POLICY_NAME)
    assert card.layout.width == 4
    said = json.loads((trained / CARD_NAME).read_text(encoding="utf-8"))["trained_on"]
    assert "--set cases=2" in said["command"]
    assert said["command"].endswith("--seed 3")
    assert said["iterations_of_best"] in (2, 4)
    assert "made up" in said["learned_from"]
    assert any("nmt" in left for left in said["left_out"])
    assert weights


@pytest.mark.parametrize(
    ("changed", "seed"), [({"width": 8}, 3), ({"learning_rate": 1e-3}, 3), ({}, 4)]
)
def test_other_options_do_not_go_on(trained: Path, changed: dict[str, float], seed: int):
    other = dataclasses.replace(SMALL, **changed)
    with pytest.raises(CompileError, match="MCM-D067") as caught:
        other.train(TrainingRequest(trained, seed=seed, resume=True), told)
    assert "other options or another seed" in str(caught.value)


def test_a_state_from_beyond_the_end_does_not_go_on(trained: Path):
    fewer = dataclasses.replace(SMALL, iterations=2)
    with pytest.raises(CompileError, match="MCM-D067") as caught:
        fewer.train(TrainingRequest(trained, seed=3, resume=True), told)
    assert "of iteration 4, beyond the 2" in str(caught.value)


def test_a_best_policy_of_an_iteration_without_a_look_does_not_go_on(trained: Path, tmp_path: Path):
    """As states have it that were left at the end of a training of three iterations, formerly."""
    with safe_open(trained / STATE_NAME, "np") as found:
        card = found.metadata()
    (key,) = card
    numbers = json.loads(card[key]) | {"best_iteration": 3}
    save_file(load_file(trained / STATE_NAME), tmp_path / STATE_NAME, {key: json.dumps(numbers)})
    with pytest.raises(CompileError, match="MCM-D067") as caught:
        SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)
    assert "its best is of iteration 3" in str(caught.value)


def test_files_of_something_else_are_no_training_to_go_on_with(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CompileError, match="MCM-D067") as caught:
        SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)
    assert "it holds files, but no training" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("weights/first", lambda array: array * np.float32(np.nan)),
        ("best/first", lambda array: array[1:]),
        ("best/first", lambda array: array.astype(np.float64)),
        ("optimizer/01", lambda array: array[..., :1].copy()),
    ],
)
def test_changed_states_are_refused(trained: Path, tmp_path: Path, name: str, wrong):
    with safe_open(trained / STATE_NAME, "np") as found:
        card = found.metadata()
    arrays = load_file(trained / STATE_NAME)
    arrays[name] = wrong(arrays[name])
    save_file(arrays, tmp_path / STATE_NAME, card)
    with pytest.raises(CompileError, match="MCM-D067"):
        SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)


@pytest.mark.parametrize("cut", [0, 100, -20])
def test_damaged_states_are_refused(trained: Path, tmp_path: Path, cut: int):
    (tmp_path / STATE_NAME).write_bytes((trained / STATE_NAME).read_bytes()[:cut])
    with pytest.raises(CompileError, match="MCM-D067"):
        SMALL.train(TrainingRequest(tmp_path, seed=3, resume=True), told)


@pytest.mark.parametrize("check_every", [1, 2, 100])
def test_a_training_of_any_length_begins_at_once(tmp_path: Path, check_every: int):
    def stop(progress: TrainingProgress) -> None:
        if progress.phase == "training":
            raise KeyboardInterrupt

    endless = dataclasses.replace(SMALL, iterations=10**15, check_every=check_every)
    with pytest.raises(KeyboardInterrupt):
        endless.train(TrainingRequest(tmp_path, seed=3), stop)
    assert (tmp_path / STATE_NAME).exists() == (check_every == 1)


@pytest.mark.parametrize("changed", [{"learning_rate": 1e30}, {"entropy": np.inf}])
def test_weights_that_diverge_are_told_and_not_written(tmp_path: Path, changed: dict[str, float]):
    wild = dataclasses.replace(SMALL, cases=4, cases_per_iteration=4, placements=4, **changed)
    with pytest.raises(CompileError, match="MCM-D066") as caught:
        wild.train(TrainingRequest(tmp_path, seed=3), told)
    assert "iteration 1: its weights are not finite" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("width", [-1, 0, 1025])
def test_widths_that_no_policy_can_have_are_refused_as_an_option(width: int):
    with pytest.raises(ValueError, match=f"width is {width}, not from 1 to 1024"):
        PlacementTrainer(width=width)


def test_a_used_folder_is_kept(trained: Path):
    before = (trained / POLICY_NAME).read_bytes()
    with pytest.raises(CompileError, match="MCM-A001"):
        SMALL.train(TrainingRequest(trained), told)
    assert (trained / POLICY_NAME).read_bytes() == before
