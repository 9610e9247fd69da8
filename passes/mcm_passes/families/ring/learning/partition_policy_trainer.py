"""`mcmc train policy`: pre-training, validation of its checkpoints, and the choice of one.

MCM, section 4.3: a training worker writes checkpoints, a validation worker scores each without
learning and fine-tuned on models of its own, and the best becomes the policy.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from msgspec import Struct, structs

from mcm_compiler.components.extras import LEARN, require_learning
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.partition import Floats
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.processes.jobs import Jobs, open_jobs
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import appended_file, write_whole
from mcm_compiler.text.json_text import UnreadableError, parse_json, record_of
from mcm_compiler.text.option_fields import at_least, checked, from_to
from mcm_models import training_run
from mcm_models.policy.layout import POLICIES
from mcm_models.policy.network import PolicyOfGraph
from mcm_models.training_run import Tell
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe, transferring
from mcm_passes.families.ring.learning.tasks import Task, rewards_of
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
@checked(samples=at_least(1), checkpoints=at_least(1), workers=from_to(0, MAX_WORKERS))
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


class _Scored(Struct, frozen=True):
    """A line of the validation's log."""

    checkpoint: int
    samples: int
    kind: str
    score: float
    by_model: dict[str, float]

    @classmethod
    def of(cls, checkpoint: int, samples: int, kind: str, by_model: dict[str, float]) -> _Scored:
        return cls(checkpoint, samples, kind, overall(by_model), by_model)

    def line(self) -> str:
        return json.dumps(structs.asdict(self)) + "\n"


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
        top = max(scored, key=lambda each: each.score)
        return f"best {top.score:.4f} after {top.samples} samples"

    def take_first() -> None:
        note = best()
        number, ticket = waiting.pop(0)
        scored.append(_Scored.of(number, samples[number], "zero-shot", jobs.result(ticket)))
        with appended_file(log) as stream:
            stream.write(scored[-1].line().encode())
        score = {"score": scored[-1].score}
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
    from mcm_passes.families.ring.learning.pretraining import checkpoint_path

    untrained, *trained = scored
    candidates = sorted(trained, key=lambda each: -each.score)[:NUM_TUNED]
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
        by_model = dict(jobs.result(ticket) for ticket in row)
        tuned.append(_Scored.of(each.checkpoint, each.samples, "fine-tuned", by_model))
        note, figures = f"{tuned[-1].score:.4f}", {"score": tuned[-1].score}
        done = len(tuned)
        tell(TrainingProgress("fine-tuning", done, len(tickets), note, "checkpoints", figures))
    best = max(tuned[1:], key=lambda each: each.score)
    as_it_is = next(each for each in trained if each.checkpoint == best.checkpoint)
    metrics = {
        "zero_shot": as_it_is.score,
        "fine_tuned": best.score,
        "untrained_zero_shot": untrained.score,
        "untrained_fine_tuned": tuned[0].score,
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
                each = record_of(parse_json(line.decode()), _Scored)
            except (UnreadableError, UnicodeDecodeError):
                break
            if each.kind != "zero-shot" or each.checkpoint != len(scored):
                break
            scored.append(each)
            whole += len(line)
    with appended_file(path) as stream:
        stream.truncate(whole)
    return scored


ZERO_SHOT_SAMPLES = 200
"""Partitions that a checkpoint draws per model, without learning."""

TUNING_SAMPLES = 200
"""Partitions that a checkpoint may learn from per model."""

_FLOOR = 1e-2
"""In place of a reward of 0 in geometric means."""


def overall(by_model: Mapping[str, float]) -> float:
    """How good a policy is: geometric mean over models of the throughput over the heuristic's."""
    return float(np.exp(np.log(np.maximum(list(by_model.values()), _FLOOR)).mean()))


def zero_shot(
    checkpoint: bytes, recipe: Recipe, problems: Sequence[TrainingProblem], seed: int
) -> dict[str, float]:
    """Scores of a checkpoint by model, as it is: it draws, and does not learn.

    Args:
        checkpoint: content of the file.
        recipe: how partitions come about.
        problems: to draw partitions of.
        seed: of the draws.
    """
    use_one_thread()
    weights, card = POLICIES.parse(checkpoint, "checkpoint")
    by_model: dict[str, float] = {}
    for k, each in enumerate(problems):
        task = Task.of(each.problem, recipe, each.rewards())
        policy = PolicyOfGraph(card.layout, weights, task.features, task.prior)
        rng = np.random.default_rng((seed, k))
        partitions = task.sampler.draw(rng, policy.decode(rng, ZERO_SHOT_SAMPLES)).partitions
        by_model[each.model] = best_so_far(rewards_of(task.rewards, partitions))
    return by_model


def best_so_far(rewards: Floats) -> float:
    """Mean over the samples of the best reward up to each: the area under a search's curve."""
    return float(np.maximum.accumulate(rewards).mean())


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
    iterations = TUNING_SAMPLES // recipe.rollouts
    rewards = [learner.iterate(task, rng).rewards for _ in range(iterations)]
    return each.model, best_so_far(np.concatenate(rewards))
