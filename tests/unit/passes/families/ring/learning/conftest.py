"""Trainings of seconds: a tiny policy, three small models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.training import TrainingRequest
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.policy.layout import PolicyLayout
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.ring.learning import partition_policy_trainer
from mcm_passes.families.ring.learning.partition_policy_trainer import PolicyTrainer
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe
from mcm_passes.families.ring.learning.training_problems import TrainingProblem, training_problems
from tests.generators.branching_problems import TrueTimes, branching_problem
from tests.generators.policy_problems import make_problem, small_policy

use_one_thread()


@dataclass(frozen=True)
class Asked:
    """A trainer with its options, and what it is asked."""

    trainer: PolicyTrainer
    request: TrainingRequest


MODELS = (
    "zoo:plain-cnn{stages=2,blocks=2,width=16,image_size=16,shape_only=true}",
    "zoo:stacked-rnn{layers=1,steps=3,hidden=32,shape_only=true}",
    "zoo:residual-cnn{stages=1,blocks=2,width=16,image_size=16,shape_only=true}",
)
TINY = Recipe(
    rollouts=4,
    layout=PolicyLayout(layers=1, width=8, head_width=8, knots=4),
    ppo=PpoSettings(epochs=1, minibatches=2),
)


@pytest.fixture
def problem_of():
    return make_problem


@pytest.fixture
def small_layout():
    return small_policy


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """The recipe `tiny`, and little fine-tuning."""
    monkeypatch.setitem(RECIPES, "tiny", TINY)
    monkeypatch.setattr(partition_policy_trainer, "NUM_TUNED", 1)
    monkeypatch.setattr(partition_policy_trainer, "TUNING_SAMPLES", 8)
    return TINY


@pytest.fixture(scope="session")
def problems() -> tuple[TrainingProblem, ...]:
    return training_problems(MODELS, load_target("mcm4"), lambda _done: None)[0]


@pytest.fixture(scope="session")
def models_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "models.json"
    path.write_text(json.dumps({"train": MODELS[:2], "validation": MODELS[2:]}))
    return path


@pytest.fixture
def request_for(tiny: Recipe, models_file: Path):
    """Makes requests for small trainings: 6 iterations, 3 checkpoints."""

    def make(folder: Path, seed: int = 0, resume: bool = False, **changes) -> Asked:
        settings = {
            "target": "mcm4",
            "data_set": str(models_file),
            "recipe": "tiny",
            "samples": 24,
            "checkpoints": 3,
            "workers": 0,
            **changes,
        }
        return Asked(PolicyTrainer(**settings), TrainingRequest(folder, seed, resume))

    return make


@pytest.fixture
def branches():
    return branching_problem


@pytest.fixture
def true_times():
    return TrueTimes
