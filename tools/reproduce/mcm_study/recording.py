"""What a search evaluates, as it goes along."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts.evaluation import ResultKind
from mcm_compiler.contracts.partition import Floats, Ints
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_study.problems import StudyProblem


class RecordedPeriods(AnalyticPeriods):
    """An `Evaluate` that remembers each improvement; searches take it for the fast model.

    With an evaluator its periods are the evaluator's, so that strategies which know nothing of
    evaluators search on what it says.

    Args:
        study: the problem.
        marks: numbers of partitions at which the processor time is noted, ascending.

    Attributes:
        steps: of each improvement: number of the partition from 1 on, period in seconds,
            processor seconds since the recording began.
        samples: partitions evaluated so far.
        valid: those of them that run.
        cpu_at_marks: processor seconds at each of the marks that was reached.
    """

    def __init__(self, study: StudyProblem, marks: Sequence[int]) -> None:
        super().__init__(study.problem, few=0)
        self.steps: list[tuple[int, float, float]] = []
        self.samples = 0
        self.valid = 0
        self.cpu_at_marks: list[float] = []
        self._evaluator = study.evaluator
        self._marks = marks
        self._best_s = float("inf")
        self._start_s = time.process_time()

    @property
    def cpu_s(self) -> float:
        """Processor seconds of this process since the recording began."""
        return time.process_time() - self._start_s

    def periods(self, partitions: Ints) -> Floats:
        """`[B]`, the period of each row of `partitions[B, N]` by the measure of the setting."""
        found = (
            super().periods(partitions) if self._evaluator is None else self._evaluated(partitions)
        )
        self._record(found)
        return found

    def _evaluated(self, partitions: Ints) -> Floats:
        assert self._evaluator is not None
        results = self._evaluator.evaluate(np.ascontiguousarray(partitions, np.int32))
        return np.where(results.kind == ResultKind.RUNS, results.period_s, np.inf)

    def _record(self, found: Floats) -> None:
        cpu_s = self.cpu_s
        for k, period_s in enumerate(found.tolist()):
            if period_s < self._best_s:
                self._best_s = period_s
                self.steps.append((self.samples + k + 1, period_s, cpu_s))
        self.samples += len(found)
        self.valid += int(np.isfinite(found).sum())
        while len(self.cpu_at_marks) < len(self._marks) and (
            self._marks[len(self.cpu_at_marks)] <= self.samples
        ):
            self.cpu_at_marks.append(cpu_s)
