"""Asks evaluators for scores, counts what was asked, and remembers the best."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest

SLACK = 0.01
"""How much worse than still acceptable a placement may look under the first conditions before the
others are not asked any more."""


@dataclass(eq=False)
class Judge:
    """Scores placements under one or several conditions.

    With several, the score is a weighted geometric mean over all of them: a percent counts by the
    weight alone, although the same step may take half as long in another order of queues. Each
    simulation counts as an evaluation.

    Attributes:
        evaluators: of one problem, under different conditions.
        left: evaluations that may still be asked for.
        ends_at: of `time.perf_counter`, when nothing is asked any more.
        weights: `[conditions]` above 0, of scores; empty for equal ones.
        evaluations: asked for.
        best: `[N]`, the placement with the best score; empty before the first.
        best_score: infinite before the first.
        best_parts: `[conditions]`, its scores under each.
        history: evaluations and the best score by then, where it fell.
    """

    evaluators: Sequence[StepEvaluator]
    left: int
    ends_at: float = np.inf
    weights: Floats = field(default_factory=lambda: np.empty(0))
    evaluations: int = 0
    best: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    best_score: float = np.inf
    best_parts: Floats = field(default_factory=lambda: np.empty(0))
    history: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    @property
    def may_ask(self) -> bool:
        """Whether evaluations and time are left for one more placement."""
        return self.left >= len(self.evaluators) and time.perf_counter() < self.ends_at

    def score(self, placement: Ints, worth: float = np.inf) -> float:
        """The score of a placement `[N]`; infinite where it is given up early.

        Args:
            placement: see `StepEvaluator`.
            worth: scores above this interest nobody.
        """
        parts = np.full(len(self.evaluators), np.nan)
        for k, evaluator in enumerate(self.evaluators):
            parts[k] = float(evaluator.evaluate(placement[None]).score[0])
            self.left -= 1
            self.evaluations += 1
            if k + 1 < len(parts) and self._hopeless(parts[: k + 1], worth):
                return np.inf
        mean = self._mean(parts)
        if mean < self.best_score:
            self.best, self.best_score, self.best_parts = placement.copy(), mean, parts
            self.history.append((self.evaluations, mean))
        return mean

    def spend(self, evaluations: int) -> None:
        """Counts evaluations that others asked for."""
        self.left -= evaluations
        self.evaluations += evaluations

    def _hopeless(self, parts: Floats, worth: float) -> bool:
        if not len(self.best_parts):
            return False
        # The best placement tells how scores under the first conditions compare with the mean.
        usual = self._mean(self.best_parts[: len(parts)]) / max(self.best_score, 1e-300)
        return self._mean(parts) > worth * usual * (1.0 + SLACK)

    def _mean(self, parts: Floats) -> float:
        """Of the first scores; a step without work takes no time."""
        if len(parts) == 1:
            return float(parts[0])
        weights = self.weights[: len(parts)] if len(self.weights) else None
        logarithms = np.log(np.maximum(parts, 1e-300))
        return float(np.exp(np.average(logarithms, weights=weights)))

    def answer(self, method: str, **figures: float) -> PlacerAnswer:
        """The best placement as a placer's answer."""
        return PlacerAnswer(
            device_of=self.best,
            method=method,
            evaluations=self.evaluations,
            history=tuple(self.history),
            figures=tuple(figures.items()),
        )


def judge_of(
    evaluators: Sequence[StepEvaluator], request: PlacerRequest, weights: Floats | None = None
) -> Judge:
    """A judge that keeps to what a request allows, from now on."""
    ends = np.inf if request.budget_s is None else time.perf_counter() + request.budget_s
    known = np.empty(0) if weights is None else weights
    return Judge(tuple(evaluators), request.evaluations, ends, known)
