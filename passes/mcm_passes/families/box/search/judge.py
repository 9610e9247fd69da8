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

    With several, the score lies between a weighted geometric mean over all of them and the worst
    of them. In the mean a percent counts by the weight alone, although the same step may take half
    as long in another order of queues; what is worst is told by times over references. Each
    simulation counts as an evaluation.

    Attributes:
        evaluators: of one problem, under different conditions.
        left: evaluations that may still be asked for.
        ends_at: of `time.perf_counter`, when nothing is asked any more.
        weights: `[conditions]` above 0, of scores; empty for equal ones.
        references: `[conditions]` above 0, scores that are equally good; empty where `worst` is 0.
        worst: share of the worst score over its reference, from 0, which is the mean alone, to 1;
            of logarithms.
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
    references: Floats = field(default_factory=lambda: np.empty(0))
    worst: float = 0.0
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
        order = self._most_telling_first()
        for k, condition in enumerate(order):
            evaluator = self.evaluators[condition]
            parts[condition] = float(evaluator.evaluate(placement[None]).score[0])
            self.left -= 1
            self.evaluations += 1
            if k + 1 < len(parts) and self._hopeless(parts, order[: k + 1], worth):
                return np.inf
        whole = self._whole(parts)
        if whole < self.best_score:
            self.best, self.best_score, self.best_parts = placement.copy(), whole, parts
            self.history.append((self.evaluations, whole))
        return whole

    def spend(self, evaluations: int) -> None:
        """Counts evaluations that others asked for."""
        self.left -= evaluations
        self.evaluations += evaluations

    def _most_telling_first(self) -> list[int]:
        """Conditions; where the worst counts, it is the first to be asked for."""
        if self.worst == 0.0 or not len(self.best_parts):
            return list(range(len(self.evaluators)))
        return np.argsort(-self.best_parts / self.references, kind="stable").tolist()

    def _hopeless(self, parts: Floats, known: list[int], worth: float) -> bool:
        if not len(self.best_parts):
            return False
        if self.worst > 0.0:
            # The others may turn out better than those of the best placement, but not by much.
            hoped = self.best_parts * (1.0 - SLACK)
            hoped[known] = parts[known]
            return self._whole(hoped) > worth
        # The best placement tells how scores under the first conditions compare with the mean.
        usual = self._mean(self.best_parts[: len(known)]) / max(self.best_score, 1e-300)
        return self._mean(parts[: len(known)]) > worth * usual * (1.0 + SLACK)

    def _whole(self, parts: Floats) -> float:
        """The score from those under all conditions."""
        mean = self._mean(parts)
        if self.worst == 0.0 or len(parts) == 1:
            return mean
        over = parts / self.references
        # Moved to where the mean is, so that it is a time like that.
        worst = float(over.max()) * self._mean(self.references)
        return mean ** (1.0 - self.worst) * worst**self.worst

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
