"""A training of the pipeline policy: what it writes, and how it goes on after a stop."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError
from mcm_models.pipelines.policy_inference import load_pipeline_policy
from mcm_models.pipelines.published_environment import FLAT_LAYOUT
from mcm_passes.parallelism.pipelines import pipeline_policy_trainer
from mcm_passes.parallelism.pipelines.pipeline_policy_trainer import (
    STATE_NAME,
    PipelinePolicyTrainer,
)
from tests.generators.left_folders import leave_private_folder

TRAINER = PipelinePolicyTrainer(samples=96, checkpoints=3)


def unheard(_: TrainingProgress) -> None:
    """Progress that nobody hears."""


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True, scope="module")
def few_cases() -> Iterator[None]:
    """Trainings on few cases and with small steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline_policy_trainer, "TRAINING_CASES", 20)
        patch.setattr(pipeline_policy_trainer, "VALIDATION_CASES", 5)
        recipes = pipeline_policy_trainer.RECIPES.items()
        small = {name: dataclasses.replace(recipe, batch=8) for name, recipe in recipes}
        patch.setattr(pipeline_policy_trainer, "RECIPES", small)
        yield


@pytest.fixture(scope="module")
def once_stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that was stopped after its first checkpoint."""
    folder = tmp_path_factory.mktemp("training") / "stopped"
    stop(TRAINER, folder, 32)
    return folder


@pytest.fixture
def stopped(once_stopped: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(once_stopped, tmp_path / "stopped")


def stop(trainer: PipelinePolicyTrainer, folder: Path, after: int, resume: bool = False) -> None:
    def killed(progress: TrainingProgress) -> None:
        if progress.done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.train(TrainingRequest(folder, seed=1, resume=resume), killed)


def test_the_trainer_writes_a_policy_with_its_card(tmp_path: Path) -> None:
    trainer = dataclasses.replace(TRAINER, samples=64, checkpoints=2)
    folder = tmp_path / "run"
    request = TrainingRequest(folder, seed=1)
    elsewhere = dataclasses.replace(request, folder=tmp_path / "flat")
    flat = dataclasses.replace(trainer, recipe="published")
    path = flat.train(elsewhere, lambda progress: None).checkpoint
    assert load_pipeline_policy(path)[0].layout == FLAT_LAYOUT
    told: list[TrainingProgress] = []
    result = trainer.train(request, told.append)
    assert [(each.done, each.total, each.unit) for each in told][-1] == (64, 64, "episodes")
    assert (
        min(each.figures["length_over_look_ahead"] for each in told)
        == (result.scores["length_over_look_ahead"])
    )
    _, card = load_pipeline_policy(result.checkpoint)
    assert card.trained_on["samples"] == 64
    assert (folder / "pipeline-policy.json").read_text() == card.to_json()
    with pytest.raises(CompileError) as caught:
        trainer.train(request, lambda progress: None)
    assert caught.value.diagnostics[0].code == "MCM-A001"
    unknown = dataclasses.replace(trainer, recipe="none")
    with pytest.raises(CompileError) as caught:
        unknown.train(elsewhere, lambda progress: None)
    assert caught.value.diagnostics[0].code == "MCM-U003"


@pytest.mark.parametrize("recipe", ["default", "bootstrapped", "published"])
def test_goes_on_to_the_same_bytes(tmp_path: Path, recipe: str) -> None:
    trainer = dataclasses.replace(TRAINER, recipe=recipe)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    found = trainer.train(TrainingRequest(whole, seed=1), unheard)
    stop(trainer, parts, 32)
    stop(trainer, parts, 64, resume=True)
    assert not list(parts.glob("pipeline-policy*"))
    again = trainer.train(TrainingRequest(parts, seed=1, resume=True), unheard)
    assert kept(parts) == kept(whole)
    assert again.scores == found.scores


def test_a_training_that_is_done_stays_as_it_is(tmp_path: Path) -> None:
    leave_private_folder(tmp_path)
    found = TRAINER.train(TrainingRequest(tmp_path, seed=1, resume=True), unheard)
    assert set(kept(tmp_path)) == {
        "pipeline-policy.json", "pipeline-policy.safetensors", "run.json"
    }  # fmt: skip
    before, heard = kept(tmp_path), list[TrainingProgress]()
    again = TRAINER.train(TrainingRequest(tmp_path, seed=1, resume=True), heard.append)
    assert (kept(tmp_path), heard, again) == (before, [], found)


@pytest.mark.parametrize(
    ("changed", "seed", "named"),
    [
        ({"samples": 128}, 1, "samples"),
        ({"checkpoints": 1}, 1, "checkpoints"),
        ({"recipe": "bootstrapped"}, 1, "recipe"),
        ({}, 2, "seed"),
    ],
)
def test_other_options_do_not_go_on(
    stopped: Path, changed: dict[str, object], seed: int, named: str
) -> None:
    before = kept(stopped)
    other = dataclasses.replace(TRAINER, **changed)
    with pytest.raises(CompileError, match="MCM-L008") as caught:
        other.train(TrainingRequest(stopped, seed=seed, resume=True), unheard)
    assert f"its '{named}' is" in str(caught.value)
    assert kept(stopped) == before


def test_files_of_something_else_are_no_training_to_go_on_with(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CompileError, match="MCM-L008"):
        TRAINER.train(TrainingRequest(tmp_path, seed=1, resume=True), unheard)
    assert list(kept(tmp_path)) == ["notes.txt"]


@pytest.mark.parametrize("cut", [0, 100, -20])
def test_damaged_states_are_refused(stopped: Path, cut: int) -> None:
    path = stopped / STATE_NAME
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CompileError, match="MCM-L009"):
        TRAINER.train(TrainingRequest(stopped, seed=1, resume=True), unheard)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("learner/weights/value/bias", lambda array: array * np.float32(np.nan)),
        ("learner/target/value/bias", lambda array: array.astype(np.float64)),
        ("learner/mean/value/bias", lambda array: array[:0]),
        ("learner/replay/rows", lambda array: array[1:]),
        ("learner/replay/rows", lambda array: np.array(array[0, 0])),
        ("learner/replay/weight", lambda array: -array),
        ("learner/numbers", lambda array: -array),
        ("learner/generator", lambda array: array + np.uint64(1)),
        ("cases", lambda array: np.full(6, 2, np.uint64)),
        ("cases", lambda array: array[:5]),
        ("best/value/bias", lambda array: array * np.float32(np.inf)),
        ("best/value/bias", None),
    ],
)
def test_changed_states_are_refused(stopped: Path, name: str, wrong) -> None:
    with safe_open(stopped / STATE_NAME, "np") as found:
        card = found.metadata()
    arrays = load_file(stopped / STATE_NAME)
    if wrong is None:
        del arrays[name]
    else:
        arrays[name] = wrong(arrays[name])
    save_file(arrays, stopped / STATE_NAME, card)
    with pytest.raises(CompileError, match="MCM-L009"):
        TRAINER.train(TrainingRequest(stopped, seed=1, resume=True), unheard)
