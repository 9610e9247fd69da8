"""`mcmc train pipeline`: the policy that cuts models which it has not seen."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from deep_q_study.learner import PUBLISHED, DqnSettings, Learner
from deep_q_study.network import Singles

from mcm_compiler.contracts.training import TrainingRequest, TrainingResult
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.text.option_fields import at_least, checked
from mcm_models import training_run
from pipeline_policy import policy_inference
from pipeline_policy.policy_environment import (
    POLICY_LAYOUT,
    CaseEnvironment,
    PreparedCase,
    QNetwork,
    first_weights,
)
from pipeline_policy.policy_inference import infer_pipeline, prepare_case
from pipeline_policy.published_environment import FLAT_LAYOUT, PublishedEnvironment
from pipeline_policy.random_cases import random_cases

POLICY_NAME, CARD_NAME = "pipeline-policy.safetensors", "pipeline-policy.json"

TRAINING_CASES, VALIDATION_CASES = 8_000, 1_200

TRAINING_CASES_SEED, VALIDATION_CASES_SEED = 7, 8
"""Seeds of cases; those that results are reported on have others."""

MOST_CHECKPOINTS = 20

PUBLISHED_RECIPE = "published"

RECIPES: dict[str, DqnSettings] = {
    "default": DqnSettings(
        learning_rate=3e-4,
        final_rate=0.05,
        gamma=1.0,
        returns="monte-carlo",
        after_cut="drop",
        replay=16_000,
        first_epsilon=0.5,
        last_epsilon=0.1,
        epsilon_iterations=5_000,
        lanes=16,
        greedy_lanes=0,
        updates=16,
    ),
    # Discounted and bootstrapped, as in the paper; the candidates are ours.
    "bootstrapped": dataclasses.replace(PUBLISHED["pp"], lanes=16, greedy_lanes=0),
    # State, actions and reward as in the paper, too.
    PUBLISHED_RECIPE: dataclasses.replace(PUBLISHED["pp"], lanes=16, greedy_lanes=0),
}
"""Settings by name."""


@dataclasses.dataclass(frozen=True)
class TrainedPolicy:
    """What a training chose.

    Attributes:
        weights: of the best checkpoint.
        score: its mean length over that of the look-ahead, on validation cases.
        iterations: gradient steps until it.
        cpu_seconds: of the training in this process.
    """

    weights: dict[str, Singles]
    score: float
    iterations: int
    cpu_seconds: float


def train_pipeline_policy(
    settings: DqnSettings,
    iterations: int,
    checkpoints: int,
    seed: int,
    tell: training_run.Tell,
    published: bool = False,
) -> TrainedPolicy:
    """Learns on synthetic cases, and keeps the checkpoint that does best on others.

    Args:
        settings: how it learns.
        iterations: gradient steps.
        checkpoints: to choose among, evenly spaced.
        seed: of weights and episodes.
        tell: hears of the progress.
        published: state, actions and reward of the paper.
    """
    started = time.process_time()
    cases = [prepare_case(c) for c in random_cases(TRAINING_CASES, TRAINING_CASES_SEED)]
    held = [prepare_case(c) for c in random_cases(VALIDATION_CASES, VALIDATION_CASES_SEED)]
    environment = (PublishedEnvironment if published else CaseEnvironment)(cases, seed)
    layout = FLAT_LAYOUT if published else POLICY_LAYOUT
    learner = Learner(environment, layout, settings, seed, iterations)
    if not published:
        learner.weights = first_weights(seed)
    per_round = settings.updates
    rounds = max(1, iterations // (per_round * max(1, checkpoints)))
    best = TrainedPolicy(dict(learner.weights), np.inf, 0, 0.0)

    def step(_number: int) -> dict[str, float]:
        learner.advance(rounds)
        return {}

    def stop(_number: int) -> tuple[str, dict[str, float]]:
        nonlocal best
        score = mean_over_known(QNetwork(layout, learner.weights), held)
        if score < best.score:
            best = TrainedPolicy(dict(learner.weights), score, learner.iterations, 0.0)
        return f"length over the look-ahead's {score:.6f}", {"length_over_look_ahead": score}

    def episodes(number: int) -> int:
        # Each lane plays an episode for as many updates.
        done = min(number * rounds * per_round, iterations)
        return done * settings.lanes // settings.updates

    loop = training_run.TrainingLoop(
        -(-iterations // (rounds * per_round)), tell, "episodes", episodes
    )
    loop.run(0, step, stop)
    return dataclasses.replace(best, cpu_seconds=time.process_time() - started)


def mean_over_known(network: QNetwork, cases: Sequence[PreparedCase], beam: int = 1) -> float:
    """Mean length over that of the pipelines that the look-ahead alone decides."""
    ratios = [
        infer_pipeline(network, case.tables, case.stages, beam).length_s / case.known_s
        for case in cases
    ]
    return float(np.mean(ratios))


@dataclasses.dataclass(frozen=True)
@checked(samples=at_least(1), checkpoints=at_least(1))
class PipelinePolicyTrainer:
    """Trains the pipeline policy; see `mcm_compiler.contracts.training.Trainer`.

    A training takes minutes; one that was stopped begins again.

    Attributes:
        recipe: name of a recipe.
        samples: pipelines to learn from, at least 1.
        checkpoints: policies to keep on the way and to choose among, at least 1; more than
            `MOST_CHECKPOINTS` count as that.

    Raises:
        ValueError: for numbers out of range.
    """

    name: ClassVar[str] = "pipeline"
    summary: ClassVar[str] = "the policy that cuts pipelines of models that it has not seen"

    recipe: str = "default"
    samples: int = 20_000
    checkpoints: int = MOST_CHECKPOINTS

    def train(self, request: TrainingRequest, tell: training_run.Tell) -> TrainingResult:
        """Trains and writes the checkpoint with its card.

        Raises:
            CompileError: MCM-A001 if the folder is not empty and nothing is resumed, MCM-L008 if it
                holds another training, MCM-L001 and others for a damaged policy of a training that
                is done, MCM-U003 for an unknown recipe.
        """
        settings = training_run.recipe_of(self.recipe, RECIPES)
        with training_run.training_folder(request):
            return _train(self, request, settings, tell)


def _train(
    trainer: PipelinePolicyTrainer,
    request: TrainingRequest,
    settings: DqnSettings,
    tell: training_run.Tell,
) -> TrainingResult:
    folder: Path = request.folder
    checkpoints = min(trainer.checkpoints, MOST_CHECKPOINTS)
    asked = _asked(trainer, request.seed, settings, checkpoints)
    training_run.TrainingKind().begin(folder, asked)
    path = folder / POLICY_NAME
    if not ((folder / CARD_NAME).exists() and path.exists()):
        iterations = max(1, trainer.samples * settings.updates // settings.lanes)
        published = trainer.recipe == PUBLISHED_RECIPE
        trained = train_pipeline_policy(
            settings, iterations, checkpoints, request.seed, tell, published
        )
        card = policy_card(
            trainer.recipe, settings, request.seed, trainer.samples, checkpoints, trained
        )
        policy_inference.PIPELINE_POLICIES.save(path, trained.weights, card)
        write_whole(folder / CARD_NAME, card.to_json().encode())
    _, card = policy_inference.load_pipeline_policy(path)
    return TrainingResult(path, trainer.samples, _scores(card.trained_on.get("metrics")))


def _scores(metrics: Any) -> dict[str, float]:
    """Of a card, which may have been changed since."""
    found = cast("dict[str, Any]", metrics) if isinstance(metrics, dict) else {}
    return {name: float(score) for name, score in found.items() if isinstance(score, float)}


def _asked(
    trainer: PipelinePolicyTrainer, seed: int, settings: DqnSettings, checkpoints: int
) -> dict[str, Any]:
    """All that decides the result."""
    return {
        "recipe": trainer.recipe,
        "recipe_settings": dataclasses.asdict(settings),
        "samples": trainer.samples,
        "checkpoints": checkpoints,
        "seed": seed,
        "cases": {"training": TRAINING_CASES, "validation": VALIDATION_CASES},
        "versions": training_run.versions_of("numpy", "numba"),
    }


def policy_card(
    recipe: str,
    settings: DqnSettings,
    seed: int,
    samples: int,
    checkpoints: int,
    trained: TrainedPolicy,
) -> policy_inference.PipelinePolicyCard:
    """What is told of a training; nothing in it depends on the machine but the versions."""
    return policy_inference.PipelinePolicyCard(
        hidden=POLICY_LAYOUT.hidden,
        flat=recipe == PUBLISHED_RECIPE,
        trained_on={
            "command": f"mcmc train pipeline --set recipe={recipe} --set samples={samples} "
            f"--set checkpoints={checkpoints} --seed {seed}",
            "cases": {"training": TRAINING_CASES, "validation": VALIDATION_CASES},
            "recipe": recipe,
            "settings": dataclasses.asdict(settings),
            "seed": seed,
            "samples": samples,
            "checkpoints": checkpoints,
            "iterations_of_best": trained.iterations,
            "metrics": {"length_over_look_ahead": trained.score},
            "versions": training_run.versions_of("numpy", "numba"),
        },
    )
