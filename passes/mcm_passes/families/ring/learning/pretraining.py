"""The training worker of MCM, section 4.3: one policy, many graphs, a checkpoint now and then."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.private_folders import remove_stale
from mcm_compiler.processes.staging import appended_file
from mcm_models.policy.layout import POLICIES, PolicyCard, Weights, initial_weights
from mcm_models.training_run import Tell, TrainingKind, TrainingLoop, save_state
from mcm_passes.families.ring.learning.learner import Iteration, PolicyLearner
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.tasks import Task
from mcm_passes.families.ring.learning.training_problems import TrainingProblem

Number = int | float | str


class MetricsLog:
    """Rows of `COLUMNS` in `metrics.jsonl` and `metrics.csv` of a folder.

    No times stand in it: the same run writes the same bytes.

    Args:
        folder: where the files are.
        log_bytes: lengths that the files are cut back to, by name; they are begun where empty.

    Raises:
        CompileError: MCM-L009 if a file is shorter than that.
    """

    def __init__(self, folder: Path, log_bytes: Mapping[str, int]) -> None:
        self._json, self._csv = folder / "metrics.jsonl", folder / "metrics.csv"
        for path in (self._json, self._csv):
            _cut(path, log_bytes.get(path.name, 0))
        if not self._csv.stat().st_size:
            _append(self._csv, ",".join(COLUMNS) + "\n")

    def add(self, rows: Sequence[Mapping[str, Number]]) -> dict[str, int]:
        """Appends rows, and gives the lengths of the files by name."""
        _append(self._json, "".join(json.dumps(dict(row), allow_nan=False) + "\n" for row in rows))
        lines = [",".join(_cell(row[name]) for name in COLUMNS) + "\n" for row in rows]
        _append(self._csv, "".join(lines))
        return {path.name: path.stat().st_size for path in (self._json, self._csv)}


def _cut(path: Path, length: int) -> None:
    with appended_file(path) as stream:
        if stream.tell() < length:
            raise CompileError.of(
                "MCM-L009",
                f"the file has {stream.tell()} bytes, and had {length} when the state of the "
                "training was written",
                at=quote(str(path)),
            )
        stream.truncate(length)


def _append(path: Path, text: str) -> None:
    with appended_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
        stream.flush()
        os.fsync(stream.fileno())


def _cell(value: Number) -> str:
    if not isinstance(value, str):
        return repr(value)
    quoted = value.replace('"', '""')
    return f'"{quoted}"' if any(c in value for c in ',"\n\r') else value


STATE_NAME = "state.safetensors"
OPTIMIZER = "optimizer/"
"""Prefix of the names of the optimizer's arrays in a state."""

CHECKPOINTS_NAME = "checkpoints"
COLUMNS = (
    "iteration", "samples", "model", "mean_reward", "best_reward", "valid_share",
    "loss", "entropy", "clipped", "gradient",
)  # fmt: skip
"""Of the metrics: one row per iteration."""

_ORDER, _ROLLOUTS = 0, 1
"""Kinds of randomness that follow from the seed apart from each other."""


@dataclass(frozen=True)
class PretrainingPlan:
    """How long a training lasts.

    Attributes:
        recipe: how it learns.
        samples: partitions in all, rounded down to whole iterations (MCM, section 5.1: 20,000).
        checkpoints: at most this many policies are kept, evenly spaced (MCM, section 5.1: 200).
        seed: of everything random.
    """

    recipe: Recipe
    samples: int = 20_000
    checkpoints: int = 200
    seed: int = 0

    @property
    def iterations(self) -> int:
        """In all, at least one."""
        return max(self.samples // self.recipe.rollouts, 1)

    def stops(self) -> list[int]:
        """Iterations after which a checkpoint is written; the last one is the end."""
        count = min(self.checkpoints, self.iterations)
        return [self.iterations * (k + 1) // count for k in range(count)]


class _Numbers(Struct, frozen=True):
    """Of a state; everything random follows from the seed and the number of the iteration."""

    iterations: int
    checkpoints: int
    log_bytes: dict[str, int]


def checkpoint_path(folder: Path, number: int) -> Path:
    """The file of a checkpoint in the folder of a training."""
    return folder / CHECKPOINTS_NAME / f"{number:04d}.safetensors"


def pretrain(
    plan: PretrainingPlan,
    problems: Sequence[TrainingProblem],
    folder: Path,
    written: Callable[[int], str],
    tell: Tell,
) -> None:
    """Trains, and reports each checkpoint once it and the state after it are on the disk.

    Goes on from the state in the folder where there is one, after reporting the checkpoints that
    were written before; what then is written is what a run without a stop writes.

    Args:
        plan: how long.
        problems: what to learn on; every pass over them is in another order.
        folder: where state, metrics and checkpoints are.
        written: hears of each checkpoint by its number, from 0 for the policy before any learning;
            gives a note for progress.
        tell: hears of each finished iteration, with its row of metrics as far as it is numbers.

    Raises:
        CompileError: MCM-L004 for rewards that are no numbers, MCM-L006 where the policy diverges,
            MCM-L009 for a damaged state.
    """
    recipe, stops = plan.recipe, plan.stops()
    numbers, weights, optimizer = _begun(plan, folder)
    for number in range(numbers.checkpoints + 1):
        written(number)
    learner = PolicyLearner(recipe, weights, optimizer)
    log = MetricsLog(folder, numbers.log_bytes)
    tasks = [Task.of(each.problem, recipe, each.rewards()) for each in problems]
    rows: list[dict[str, Number]] = []

    def step(done: int) -> dict[str, float]:
        k = _model_of(plan.seed, done - 1, len(tasks))
        found = learner.iterate(tasks[k], _rng(plan.seed, _ROLLOUTS, done - 1))
        rows.append(_row(done, recipe, problems[k].model, found))
        _check_finite(found, rows[-1], folder)
        return {name: value for name in COLUMNS[3:] if isinstance(value := rows[-1][name], float)}

    def stop(done: int) -> tuple[str, dict[str, float]]:
        number, weights = stops.index(done) + 1, learner.weights
        POLICIES.save(checkpoint_path(folder, number), weights, _card(plan, done))
        parts = {"": weights, OPTIMIZER: learner.optimizer_arrays()}
        state = {"iterations": done, "checkpoints": number, "log_bytes": log.add(rows)}
        save_state(folder / STATE_NAME, state, parts)
        rows.clear()
        return written(number), {}

    loop = TrainingLoop(plan.iterations, tell, "samples", lambda done: done * recipe.rollouts)
    loop.run(numbers.iterations, step, stop, lambda done: done in stops)


def _begun(plan: PretrainingPlan, folder: Path) -> tuple[_Numbers, Weights, Weights | None]:
    """Numbers, weights and optimizer that the folder holds, or those of a new training."""
    # Of a process that was killed while it wrote a checkpoint.
    remove_stale(folder / CHECKPOINTS_NAME)
    weights = initial_weights(plan.recipe.layout, plan.seed)
    if (folder / STATE_NAME).exists():
        like = {"": weights, OPTIMIZER: PolicyLearner(plan.recipe, weights).optimizer_arrays()}
        stops = (0, *plan.stops())

        def fault(numbers: _Numbers) -> str:
            known = 0 <= numbers.checkpoints < len(stops)
            if known and numbers.iterations == stops[numbers.checkpoints]:
                return ""
            return (
                f"it is of iteration {numbers.iterations} and checkpoint {numbers.checkpoints}, "
                "which this training does not have"
            )

        numbers, parts = TrainingKind().load(folder / STATE_NAME, _Numbers, like, fault)
        return numbers, parts[""], parts[OPTIMIZER]
    (folder / CHECKPOINTS_NAME).mkdir(exist_ok=True)
    POLICIES.save(checkpoint_path(folder, 0), weights, _card(plan, 0))
    return _Numbers(0, 0, {}), weights, None


def _model_of(seed: int, iteration: int, count: int) -> int:
    """The model of an iteration: every pass takes each once, in an order of its own."""
    epoch, place = divmod(iteration, count)
    return int(_rng(seed, _ORDER, epoch).permutation(count)[place])


def _rng(seed: int, kind: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(kind, number)))


def _row(done: int, recipe: Recipe, model: str, found: Iteration) -> dict[str, Number]:
    rewards = found.rewards
    return {
        "iteration": done,
        "samples": done * recipe.rollouts,
        "model": model,
        "mean_reward": float(rewards.mean()),
        "best_reward": float(rewards.max()),
        "valid_share": float((rewards > 0).mean()),
        **{name: float(found.metrics[name]) for name in COLUMNS[6:]},
    }


def _check_finite(found: Iteration, row: dict[str, Number], folder: Path) -> None:
    # The gradient is that of the last steps: once a weight is not finite, it is not either.
    if not all(np.isfinite(value) for value in found.metrics.values()):
        raise CompileError.of(
            "MCM-L006",
            f"the policy diverges after {row['samples']} samples: loss {row['loss']}, "
            f"gradient {row['gradient']}",
            at=quote(str(folder)),
        )


def _card(plan: PretrainingPlan, iterations: int) -> PolicyCard:
    recipe = plan.recipe
    return PolicyCard(
        recipe.layout,
        prior=recipe.prior,
        sampler=recipe.sampler,
        trained_on={
            "seed": plan.seed,
            "samples": iterations * recipe.rollouts,
            "recipe": dataclasses.asdict(recipe),
        },
    )
