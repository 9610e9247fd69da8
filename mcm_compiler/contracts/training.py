"""The contract of `mcmc train`: the request to a trainer, its progress and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.requests import TrainingRequest, in_form
from mcm_compiler.registry import TRAINERS


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training is.

    Attributes:
        phase: what it does, such as `training`.
        done: steps of the phase.
        total: steps of the phase.
        note: the latest figures, for people.
        unit: what is counted, such as `samples`; empty where a rate says nothing.
        figures: numbers after this step by name, for curves; they have no units.
    """

    phase: str
    done: int
    total: int
    note: str = ""
    unit: str = ""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training.

    Attributes:
        checkpoint: file of the policy.
        samples: number of samples that it learned from, in the units of the trainer.
        scores: figures by name, without unit.
        left_out: models, or others, that the training skipped: a text each.
        meaning: description of the scores, in a sentence; empty if their names suffice.
    """

    checkpoint: Path
    samples: int
    scores: dict[str, float] = field(default_factory=dict[str, float])
    left_out: tuple[str, ...] = ()
    meaning: str = ""


def trained_by(
    name: str, trainer: Trainer, request: TrainingRequest, tell: Callable[[TrainingProgress], None]
) -> TrainingResult:
    """Run a trainer, and check the form of its result.

    Args:
        name: by which the trainer is registered.
        trainer: the trainer.
        request: see there.
        tell: receives the progress.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with TRAINERS.at_work(name):
        return _in_form(trainer.train(request, tell))


def _in_form(found: object) -> TrainingResult:
    """A result whose file is there, and whose numbers are some.

    Raises:
        TypeError: for a field of another type.
        ValueError: for a number or a path that cannot be.
    """

    def checkpoint(given: str | Path) -> Path:
        path = Path(given)
        if not path.exists():
            raise ValueError(f"its checkpoint '{path}' is not there")
        return path

    def scores(given: Mapping[str, float]) -> dict[str, float]:
        found = {str(name): float(score) for name, score in given.items()}
        wrong = [name for name, score in found.items() if not math.isfinite(score)]
        if wrong:
            raise ValueError(f"the score '{wrong[0]}' is {found[wrong[0]]}")
        return found

    return in_form(
        found,
        TrainingResult,
        checkpoint=checkpoint,
        scores=scores,
        left_out=lambda given: tuple(map(str, given)),
    )


class Trainer(Named, Protocol):
    """Trains what the compiler learns: a frozen dataclass whose fields are its options.

    Registered by name as kind `trainer`.
    """

    def train(
        self, request: TrainingRequest, tell: Callable[[TrainingProgress], None]
    ) -> TrainingResult:
        """Trains, or goes on where an earlier process was stopped.

        Args:
            request: where to, and from which seed.
            tell: hears of the progress.

        Raises:
            CompileError: with a diagnostic of the family MCM-L.
        """
        ...
