"""A training of the pipeline policy: what it writes, and that a stop changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_policy import trainer
from pipeline_policy.policy_inference import load_pipeline_policy
from pipeline_policy.published_environment import FLAT_LAYOUT
from pipeline_policy.trainer import PipelinePolicyTrainer

from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError
from tests.generators.left_folders import leave_private_folder

TRAINER = PipelinePolicyTrainer(samples=96, checkpoints=3)


def unheard(_: TrainingProgress) -> None:
    """Progress that nobody hears."""


def killed(_: TrainingProgress) -> None:
    raise KeyboardInterrupt


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True, scope="module")
def few_cases() -> Iterator[None]:
    """Trainings on few cases and with small steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "TRAINING_CASES", 20)
        patch.setattr(trainer, "VALIDATION_CASES", 5)
        recipes = trainer.RECIPES.items()
        small = {name: dataclasses.replace(recipe, batch=8) for name, recipe in recipes}
        patch.setattr(trainer, "RECIPES", small)
        yield


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
def test_a_training_that_was_stopped_ends_with_the_same_bytes(tmp_path: Path, recipe: str) -> None:
    trainer = dataclasses.replace(TRAINER, recipe=recipe)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    found = trainer.train(TrainingRequest(whole, seed=1), unheard)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(TrainingRequest(parts, seed=1), killed)
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
