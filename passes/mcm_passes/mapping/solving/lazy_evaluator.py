"""A batch judge that is built when it is asked for the first time."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from mcm_compiler.components.capabilities import batch_judging_of
from mcm_compiler.contracts.evaluation import BatchJudge, Verdicts
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.contracts.target import Target


class LazyJudge:
    """Implements `mcm_compiler.contracts.evaluation.BatchJudge`; most compiles never need one.

    Args:
        build: makes the judge.
    """

    def __init__(self, build: Callable[[], BatchJudge]) -> None:
        self._build = build
        self._judge: BatchJudge | None = None

    def _built(self) -> BatchJudge:
        if self._judge is None:
            self._judge = self._build()
        return self._judge

    @property
    def name(self) -> str:
        """Of the judge that is built."""
        return self._built().name

    def judge(self, partitions: Ints) -> Verdicts:
        """The judge's verdicts on `partitions[B, N]`."""
        return self._built().judge(partitions)


def judge_of(model: ir.Model, problem: PartitionProblem, target: Target) -> LazyJudge | None:
    """The target's batch judge for a problem of `model`; None for targets that have none.

    Args:
        model: with its fusion plan; must not change as long as the judge is used.
        problem: the problem.
        target: the package.
    """
    judging = batch_judging_of(target)
    if judging is None:
        return None
    groups = FUSION_PLAN.get(model).group_names
    return LazyJudge(lambda: judging.batch_judge(model, problem, groups))
