"""The contract of `mcmc train`: what is asked of a trainer, and what it tells and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

DEFAULT_DATA_SET = "mcm87"
"""The zoo's 87 convolutional and recurrent models."""


@dataclass(frozen=True)
class TrainingRequest:
    """A training.

    Attributes:
        folder: where everything is written.
        target: name or file of the package to train for.
        data_set: name of a data set, or JSON file with the models to train and to validate on.
        recipe: name of a recipe.
        samples: partitions to learn from, rounded down to whole iterations.
        checkpoints: policies to keep and to choose among, evenly spaced.
        seed: of everything random.
        workers: processes on this machine that score checkpoints; 0 for none but this one.
        scheduler: address of a Dask scheduler that takes their place, or None.
        resume: go on with what is in the folder.
    """

    folder: Path
    target: str = "mcm36"
    data_set: str = DEFAULT_DATA_SET
    recipe: str = "default"
    samples: int = 20_000
    checkpoints: int = 200
    seed: int = 0
    workers: int = 2
    scheduler: str | None = None
    resume: bool = False


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training is.

    Attributes:
        phase: what it does, such as `training`.
        done: steps of the phase.
        total: steps of the phase.
        note: the latest figures, for people.
    """

    phase: str
    done: int
    total: int
    note: str = ""


@dataclass(frozen=True)
class TrainingResult:
    """What a training chose.

    Attributes:
        checkpoint: file of the policy.
        samples: partitions that it had learned from.
        scores: figures by name, without unit: throughput over the greedy heuristic's, geometric
            mean over the validation models, under the fast cost model.
        left_out: models without a valid greedy partition on the target.
    """

    checkpoint: Path
    samples: int
    scores: dict[str, float] = field(default_factory=dict[str, float])
    left_out: tuple[str, ...] = ()


class Trainer(Protocol):
    """Trains what the compiler learns; found by name through entry points."""

    def train(
        self, request: TrainingRequest, tell: Callable[[TrainingProgress], None]
    ) -> TrainingResult:
        """Trains, or goes on where an earlier process was stopped.

        Args:
            request: what to train on, and how long.
            tell: hears of the progress.

        Raises:
            CompileError: with a diagnostic of the family MCM-L.
        """
        ...
