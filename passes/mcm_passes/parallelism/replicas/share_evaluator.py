"""The evaluator of a package for pipelines that have a part of its chips."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, BatchResults, ResultKind
from mcm_compiler.contracts.partition import Bools, Ints, PartitionProblem
from mcm_passes.mapping.solving.lowered_evaluator import LoweredEvaluator


def share_evaluator(
    evaluator: BatchEvaluator, problem: PartitionProblem, pipelines: int
) -> BatchEvaluator:
    """The evaluator of one of N pipelines on a share of the package that another one is for."""
    if isinstance(evaluator, LoweredEvaluator):
        return evaluator.on_share(problem, pipelines)
    return ShareEvaluator(evaluator, problem, pipelines)


class ShareEvaluator:
    """Implements `BatchEvaluator` for the first chips of a package.

    Tables of an evaluator say nothing of the number of chips, so that one of all chips serves each
    share of them, where the host reaches every chip and chips are equal.

    Args:
        evaluator: of the package, where chips are equal and each has a way to the host.
        problem: of a pipeline on the share.
        pipelines: that share the package, and its channels that all chips share.
    """

    def __init__(
        self, evaluator: BatchEvaluator, problem: PartitionProblem, pipelines: int
    ) -> None:
        self._evaluator = evaluator
        self._chips = problem.num_chips
        self._pipelines = pipelines
        self._fixed = ~problem.clonable

    @property
    def name(self) -> str:
        """Of the evaluator of the package."""
        return self._evaluator.name

    def evaluate(self, partitions: Ints) -> BatchResults:
        """Results for `partitions[B, N]` for the chips of the share alone."""
        found, chips = self._evaluator.evaluate(partitions), self._chips
        # Chips beyond the share belong to the next pipeline.
        outside: Bools = np.any(partitions[:, self._fixed] >= chips, axis=1)
        return BatchResults(
            kind=np.where(outside, int(ResultKind.BREAKS_RULE), found.kind).astype(np.int32),
            period_s=np.where(outside, np.inf, found.periods_of(self._pipelines)),
            latency_s=np.where(outside, np.inf, found.latency_s),
            high_water_bytes=np.where(outside[:, None], 0, found.high_water_bytes[:, :chips]),
            chip_busy_s=np.where(outside[:, None], 0.0, found.chip_busy_s[:, :chips]),
            link_busy_s=np.where(outside[:, None], 0.0, found.link_busy_s[:, :chips]),
            shared_busy_s=found.shared_busy_s,
        )
