"""`mcmc train policy`: pre-training, validation of its checkpoints, and the choice of one.

MCM, section 4.3: a training worker writes checkpoints, a validation worker scores each without
learning and fine-tuned on models of its own, and the best becomes the policy.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from mcm_compiler.components.extras import LEARN, require_learning
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.processes.jobs import Jobs, open_jobs
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import appended_file, write_whole
from mcm_compiler.text.option_fields import at_least, checked
from mcm_models import training_run
from mcm_models.policy.layout import POLICIES
from mcm_models.training_run import Tell
from mcm_passes.families.ring.learning import tasks
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe, transferring
from mcm_passes.families.ring.learning.tasks import Score, Task, best_so_far, zero_shot
from mcm_passes.families.ring.learning.training_problems import (
    DEFAULT_DATA_SET,
    DataSet,
    TrainingProblem,
    data_set,
    digest_of,
    training_problems,
)

VALIDATION_NAME = "validation.jsonl"
POLICY_NAME = "policy.safetensors"
CARD_NAME = "policy.json"

NUM_TUNED = 4
"""Checkpoints, the best without learning, that are also scored fine-tuned (ours)."""

MAX_WORKERS = 1024


@dataclass(frozen=True)
@checked(samples=at_least(1), checkpoints=at_least(1))
class PolicyTrainer:
    """Trains the partitioning policy; see `mcm_compiler.contracts.training.Trainer`.

    Attributes:
        target: name or file of the package to train for.
        data_set: name of a data set, or JSON file with the models to train and to validate on.
        recipe: name of a recipe.
        samples: partitions to learn from, rounded down to whole iterations; at least 1.
        checkpoints: policies to keep and to choose among, evenly spaced; at least 1.
        workers: processes on this machine that score checkpoints; 0 for none but this one.
        scheduler: address of a Dask scheduler that takes their place, or None.

    Raises:
        ValueError: for numbers out of range.
    """

    name: ClassVar[str] = "policy"
    summary: ClassVar[str] = "the policy behind the strategies rl-zeroshot and rl-finetune"
    extra: ClassVar[str] = LEARN

    target: str = "mcm36"
    data_set: str = DEFAULT_DATA_SET
    recipe: str = "default"
    samples: int = 20_000
    checkpoints: int = 200
    workers: int = 2
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.workers <= MAX_WORKERS:
            raise ValueError(f"workers is {self.workers}, not between 0 and {MAX_WORKERS}")

    def train(self, request: TrainingRequest, tell: Tell) -> TrainingResult:
        """Trains, validates and chooses; or goes on where another process was stopped.

        Raises:
            CompileError: MCM-A001 if the folder exists and `resume` is not asked for, MCM-L008 if
                it holds another training, MCM-L012 without the extra, MCM-L0## of what it
                calls, MCM-U003 for an unknown recipe.
        """
        require_learning("trainer 'policy'", "command train", "compile with the shipped policy")
        with training_run.training_folder(request):
            return _train(self, request, tell)


@dataclass(frozen=True)
class _Scored:
    """A line of the validation's log."""

    checkpoint: int
    samples: int
    kind: str
    score: Score

    def line(self) -> str:
        data = {**dataclasses.asdict(self), "score": self.score.overall}
        data["by_model"] = dict(self.score.by_model)
        return json.dumps(data) + "\n"

    @classmethod
    def parse(cls, line: str) -> _Scored:
        data = cast("dict[str, Any]", json.loads(line))
        score = Score(float(data["score"]), data["by_model"])
        return cls(int(data["checkpoint"]), int(data["samples"]), str(data["kind"]), score)


def _train(trainer: PolicyTrainer, request: TrainingRequest, tell: Tell) -> TrainingResult:
    recipe = training_run.recipe_of(trainer.recipe, RECIPES)
    models = data_set(trainer.data_set)
    folder = request.folder
    train, validation, left_out = _problems(trainer.target, models, tell)
    run = _run_data(trainer, request.seed, models, recipe, [*train, *validation], left_out)
    training_run.TrainingKind().begin(folder, run)
    if (folder / POLICY_NAME).exists():
        return _result(folder)
    with open_jobs(trainer.workers, trainer.scheduler) as jobs:
        scored = _pretrain_and_score(trainer, request, recipe, train, validation, jobs, tell)
        _choose(folder, run, scored, recipe, validation, jobs, tell)
    return _result(folder)


def _problems(
    target_name: str, models: DataSet, tell: Tell
) -> tuple[tuple[TrainingProblem, ...], tuple[TrainingProblem, ...], tuple[str, ...]]:
    target = load_target(target_name)
    total = len(models.train) + len(models.validation)

    def told(before: int) -> Callable[[int], None]:
        return lambda done: tell(
            TrainingProgress("reading models", before + done, total, unit="models")
        )

    train, train_out = training_problems(models.train, target, told(0))
    validation, validation_out = training_problems(
        models.validation, target, told(len(models.train))
    )
    return train, validation, (*train_out, *validation_out)


def _run_data(
    trainer: PolicyTrainer,
    seed: int,
    models: DataSet,
    recipe: Recipe,
    problems: Sequence[TrainingProblem],
    left_out: Sequence[str],
) -> dict[str, Any]:
    """Everything that decides the result, by name."""
    return {
        "target": trainer.target,
        "data_set": models.name,
        "models": models.digest,
        "problems": digest_of(problems),
        "left_out": list(left_out),
        "recipe": trainer.recipe,
        "recipe_settings": dataclasses.asdict(recipe),
        "samples": trainer.samples,
        "checkpoints": trainer.checkpoints,
        "seed": seed,
        "versions": training_run.versions_of("numpy", "numba", "jax", "optax"),
    }


def _pretrain_and_score(
    trainer: PolicyTrainer,
    request: TrainingRequest,
    recipe: Recipe,
    train: Sequence[TrainingProblem],
    validation: Sequence[TrainingProblem],
    jobs: Jobs,
    tell: Tell,
) -> list[_Scored]:
    """Trains while workers score what is written; the scores of all checkpoints in their order."""
    from mcm_passes.families.ring.learning.pretraining import (
        PretrainingPlan,
        checkpoint_path,
        pretrain,
    )

    plan = PretrainingPlan(transferring(recipe), trainer.samples, trainer.checkpoints, request.seed)
    samples = [stop * recipe.rollouts for stop in (0, *plan.stops())]
    log = request.folder / VALIDATION_NAME
    scored = _read_log(log)
    waiting: list[tuple[int, int]] = []

    def best() -> str:
        if not scored:
            return ""
        top = max(scored, key=lambda each: each.score.overall)
        return f"best {top.score.overall:.4f} after {top.samples} samples"

    def take_first() -> None:
        note = best()
        number, ticket = waiting.pop(0)
        scored.append(_Scored(number, samples[number], "zero-shot", jobs.result(ticket)))
        _append_line(log, scored[-1].line())
        score = {"score": scored[-1].score.overall}
        # The policy before any learning is scored, too.
        done, total = number + 1, len(samples)
        tell(TrainingProgress("validation", done, total, note, "checkpoints", score))

    def written(number: int) -> str:
        if number >= len(scored):
            data = checkpoint_path(request.folder, number).read_bytes()
            ticket = jobs.submit(zero_shot, data, recipe, validation, request.seed)
            waiting.append((number, ticket))
        while waiting and jobs.done(waiting[0][1]):
            take_first()
        return best()

    pretrain(plan, train, request.folder, written, tell)
    while waiting:
        take_first()
    return scored


def _choose(
    folder: Path,
    run: dict[str, Any],
    scored: Sequence[_Scored],
    recipe: Recipe,
    validation: Sequence[TrainingProblem],
    jobs: Jobs,
    tell: Tell,
) -> None:
    """Fine-tunes the best few and writes the best of them as the policy."""
    from mcm_models.policy.layout import POLICIES
    from mcm_passes.families.ring.learning.pretraining import checkpoint_path

    untrained, *trained = scored
    candidates = sorted(trained, key=lambda each: -each.score.overall)[:NUM_TUNED]
    seed = cast("int", run["seed"])
    tickets = [
        [
            jobs.submit(
                fine_tuned,
                checkpoint_path(folder, each.checkpoint).read_bytes(),
                transferring(recipe),
                problem,
                seed,
            )
            for problem in validation
        ]
        for each in (untrained, *candidates)
    ]
    tuned: list[_Scored] = []
    for each, row in zip((untrained, *candidates), tickets, strict=True):
        score = Score.of(dict(jobs.result(ticket) for ticket in row))
        tuned.append(_Scored(each.checkpoint, each.samples, "fine-tuned", score))
        note, figures = f"{score.overall:.4f}", {"score": score.overall}
        done = len(tuned)
        tell(TrainingProgress("fine-tuning", done, len(tickets), note, "checkpoints", figures))
    best = max(tuned[1:], key=lambda each: each.score.overall)
    as_it_is = next(each for each in trained if each.checkpoint == best.checkpoint)
    metrics = {
        "zero_shot": as_it_is.score.overall,
        "fine_tuned": best.score.overall,
        "untrained_zero_shot": untrained.score.overall,
        "untrained_fine_tuned": tuned[0].score.overall,
    }
    weights, card = POLICIES.load(checkpoint_path(folder, best.checkpoint))
    card = dataclasses.replace(
        card,
        recipe=str(run["recipe"]),
        trained_on={
            **card.trained_on,
            **{name: run[name] for name in ("target", "data_set", "models", "versions")},
            "metrics": metrics,
        },
    )
    log = "".join(each.line() for each in (*scored, *tuned))
    write_whole(folder / VALIDATION_NAME, log.encode(), lasting=True)
    write_whole(folder / CARD_NAME, card.to_json().encode(), lasting=True)
    POLICIES.save(folder / POLICY_NAME, weights, card)


def _result(folder: Path) -> TrainingResult:
    from mcm_models.policy.layout import POLICIES

    run = json.loads((folder / training_run.RUN_NAME).read_bytes())
    _, card = POLICIES.load(folder / POLICY_NAME)
    return TrainingResult(
        folder / POLICY_NAME,
        int(card.trained_on["samples"]),
        dict(card.trained_on["metrics"]),
        tuple(run["left_out"]),
        "scores: throughput over the greedy heuristic's, analytic model, geometric mean over the "
        "validation models of the best so far on average over 200 samples",
    )


def _read_log(path: Path) -> list[_Scored]:
    """Scores of an earlier process, up to a line that it did not finish."""
    scored: list[_Scored] = []
    whole = 0
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                each = _Scored.parse(line.decode())
            except (ValueError, KeyError, TypeError):
                break
            if each.kind != "zero-shot" or each.checkpoint != len(scored):
                break
            scored.append(each)
            whole += len(line)
    with appended_file(path) as stream:
        stream.truncate(whole)
    return scored


def _append_line(path: Path, line: str) -> None:
    with appended_file(path) as stream:
        stream.write(line.encode())


def fine_tuned(
    checkpoint: bytes, recipe: Recipe, each: TrainingProblem, seed: int
) -> tuple[str, float]:
    """A checkpoint that goes on learning on one model; the model and its score.

    Args:
        checkpoint: content of the file.
        recipe: how it learns.
        each: the model.
        seed: of the draws.
    """
    use_one_thread()
    from mcm_passes.families.ring.learning.learner import PolicyLearner

    weights, _ = POLICIES.parse(checkpoint, "checkpoint")
    learner = PolicyLearner(recipe, weights)
    task = Task.of(each.problem, recipe, each.rewards())
    rng = np.random.default_rng(seed)
    iterations = tasks.TUNING_SAMPLES // recipe.rollouts
    rewards = [learner.iterate(task, rng).rewards for _ in range(iterations)]
    return each.model, best_so_far(np.concatenate(rewards))
