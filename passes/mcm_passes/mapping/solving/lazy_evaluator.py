"""A batch evaluator that is built when it is asked for the first time."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from mcm_compiler.components.capabilities import batch_evaluation_of
from mcm_compiler.contracts.evaluation import BatchEvaluator, BatchResults
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.contracts.target import Lowers, Simulates, Target
from mcm_passes.mapping.solving.lowered_evaluator import LoweredEvaluator


class LazyEvaluator:
    """Implements `mcm_compiler.contracts.evaluation.BatchEvaluator`; most compiles never need one.

    Args:
        build: makes the evaluator.
    """

    def __init__(self, build: Callable[[], BatchEvaluator]) -> None:
        self._build = build
        self._evaluator: BatchEvaluator | None = None

    def _built(self) -> BatchEvaluator:
        if self._evaluator is None:
            self._evaluator = self._build()
        return self._evaluator

    @property
    def name(self) -> str:
        """Of the evaluator that is built."""
        return self._built().name

    def evaluate(self, partitions: Ints) -> BatchResults:
        """The evaluator's results for `partitions[B, N]`."""
        return self._built().evaluate(partitions)


def evaluator_of(
    model: ir.Model, problem: PartitionProblem, target: Target
) -> LazyEvaluator | LoweredEvaluator | None:
    """The evaluator of a problem of `model`: the target's own, or one that lowers placements.

    None for targets that do not lower or simulate, and for fabrics, whose chips are mapped first.

    Args:
        model: with its fusion plan; must not change as long as the evaluator is used.
        problem: the problem.
        target: the package.
    """
    evaluating = batch_evaluation_of(target)
    if evaluating is None:
        plays = isinstance(target, Lowers) and isinstance(target, Simulates)
        lowers = plays and not isinstance(target, MapsChips)
        return LoweredEvaluator(model, problem, target) if lowers else None
    groups = FUSION_PLAN.get(model).group_names
    return LazyEvaluator(lambda: evaluating.batch_evaluator(model, problem, groups))
