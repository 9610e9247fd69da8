"""The batch evaluator of targets that have none of their own: each placement is lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from mcm_compiler.components.capabilities import batch_evaluation_of, lowered
from mcm_compiler.contracts.chips import CHIP
from mcm_compiler.contracts.evaluation import BatchEvaluator, BatchResults, ResultKind
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import Ints, LowerBound, Partition, PartitionProblem
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import Lowers, Simulates, Target
from mcm_compiler.ir.rewriting.device_stages import stage_on_host
from mcm_compiler.ir.rewriting.splitter import split
from mcm_compiler.placements.side_by_side import simulate_pipelines
from mcm_compiler.variants.prepared_model import kept_copy
from mcm_passes.mapping.models import evaluate
from mcm_passes.mapping.problem.state_units import kept_states
from mcm_passes.mapping.solving.legalization import legalize, mark_host_ops

INFERENCES = 64


@dataclass(frozen=True, eq=False)
class LoweredEvaluator:
    """Implements `BatchEvaluator` by what the passes do: legalise, split, lower, simulate.

    A placement takes some tenths of a second, so that searches ask about few. Nothing is said of
    links, which are no ring's.

    Attributes:
        model: the model that `problem` was built from, not changed since.
        problem: of one pipeline.
        target: the package.
        pipelines: that run side by side.
    """

    model: ir.Model
    problem: PartitionProblem
    target: Target
    pipelines: int = 1
    _played: dict[tuple[int, int, bytes], BatchResults] = field(
        default_factory=dict[tuple[int, int, bytes], BatchResults]
    )

    @property
    def name(self) -> str:
        """Of the target's simulator, as far as search is concerned."""
        return "lowered"

    def on_share(self, problem: PartitionProblem, pipelines: int) -> LoweredEvaluator:
        """The evaluator of one of N pipelines, each on a share of the package."""
        return replace(self, problem=problem, pipelines=pipelines)

    def evaluate(self, partitions: Ints) -> BatchResults:
        """Lowers and simulates each partition, the last one once for all shares; see there."""
        count, chips = len(partitions), self.problem.num_chips
        key = self.pipelines, chips, partitions.tobytes()
        if (known := self._played.get(key)) is not None:
            return known
        found = BatchResults(
            kind=np.full(count, int(ResultKind.BREAKS_RULE), np.int32),
            period_s=np.full(count, np.inf),
            latency_s=np.full(count, np.inf),
            high_water_bytes=np.zeros((count, chips), np.int64),
            chip_busy_s=np.zeros((count, chips)),
            link_busy_s=np.empty((count, 0)),
        )
        for k in range(count):
            self._evaluate(partitions[k], found, k)
        self._played.clear()
        self._played[key] = found
        return found

    def _evaluate(self, chip_of: Ints, found: BatchResults, k: int) -> None:
        placed = evaluate(self.problem.at_need(), chip_of)
        if any(one.rule != "memory" for one in placed.violations):
            return
        program = self._lowered(placed.chip_of)
        for chip in program.chips:
            found.high_water_bytes[k, chip.chip] = chip.high_water_bytes
        for over in program.overflows:
            found.high_water_bytes[k, over.chip] = over.demand_bytes
        if program.overflows:
            found.kind[k] = ResultKind.OVERFLOWS
            return
        played = simulate_pipelines(
            self.target, program, INFERENCES, self.pipelines, self.problem.num_chips
        )
        found.kind[k] = ResultKind.RUNS
        found.period_s[k], found.latency_s[k] = played.period_s, played.latency_s
        for chip in played.chips:
            found.chip_busy_s[k, chip.chip] = chip.busy_s

    def _lowered(self, chip_of: Ints) -> LoweredProgram:
        problem, model = self.problem, kept_copy(self.model)
        none = LowerBound(0.0, "none is sought")
        partition = Partition(chip_of, 0.0, none, "")
        legalize(model, problem, partition, FUSION_PLAN.get(self.model))
        mark_host_ops(model.graph, self.target.cost_model())
        chips, wires = split(model, CHIP, kept_states(model, problem))
        for chip in chips:
            stage_on_host(chip.model)
        return lowered(self.target, chips, wires, None)


class LazyEvaluator:
    """Implements `mcm_compiler.contracts.evaluation.BatchEvaluator`; most compiles never need one.

    Args:
        build: makes the evaluator.
    """

    def __init__(self, build: Callable[[], BatchEvaluator]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> BatchEvaluator:
        return self._build()

    @property
    def name(self) -> str:
        """Of the evaluator that is built."""
        return self._built.name

    def evaluate(self, partitions: Ints) -> BatchResults:
        """The evaluator's results for `partitions[B, N]`."""
        return self._built.evaluate(partitions)


def evaluator_of(
    model: ir.Model, problem: PartitionProblem, target: Target
) -> LazyEvaluator | LoweredEvaluator | None:
    """The evaluator of a problem of `model`: the target's own, or one that lowers placements.

    None for targets that do not lower or simulate, such as fabrics, whose chips are mapped first.

    Args:
        model: with its fusion plan; must not change as long as the evaluator is used.
        problem: the problem.
        target: the package.
    """
    evaluating = batch_evaluation_of(target)
    if evaluating is None:
        plays = isinstance(target, Lowers) and isinstance(target, Simulates)
        return LoweredEvaluator(model, problem, target) if plays else None
    groups = FUSION_PLAN.get(model).group_names
    return LazyEvaluator(lambda: evaluating.batch_evaluator(model, problem, groups))
