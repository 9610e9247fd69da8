"""Placements that a planner has had judged: how many, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator, StepResults
from mcm_compiler.diagnostics import CompileError, quote


@dataclass(eq=False)
class Judged:
    """Asks the evaluator, and remembers.

    Attributes:
        evaluator: of the problem.
        evaluations: placements that were simulated.
        best_score: of the best, infinite before the first.
        best: `[N]`, empty before the first.
        history: evaluations and the best score by then, where it fell.
        any_fits: whether one fitted.
    """

    evaluator: StepEvaluator
    evaluations: int = 0
    best_score: float = np.inf
    best: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    history: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    any_fits: bool = False

    def judge(self, placements: Ints) -> StepResults:
        """Results of placements `[K, N]`.

        Raises:
            CompileError: MCM-D060 for scores that are no positive numbers.
        """
        results = self.evaluator.evaluate(placements)
        scores = results.score
        wrong = int(len(scores) - (np.isfinite(scores) & (scores >= 0.0)).sum())
        if wrong:
            raise CompileError.of(
                "MCM-D060",
                f"{wrong} of {len(scores)} scores are no numbers from 0 up",
                at=f"evaluator {quote(self.evaluator.name)}",
            )
        for place, score in zip(placements, scores.tolist(), strict=True):
            self.evaluations += 1
            if score < self.best_score:
                self.best_score, self.best = score, place.copy()
                self.history.append((self.evaluations, score))
        self.any_fits |= bool(results.fits.any())
        return results
