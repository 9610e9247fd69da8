"""The proof of a bound over all divisions by its prices, with other code than finds them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound
from mcm_compiler.contracts.target import PackageLimits, Target
from mcm_passes.parallelism.division_bounds.division_bound import divided_kernels


@dataclass(frozen=True)
class DivisionCheck:
    """Implements `ProofChecker` and `ProvesDivisions`."""

    summary: str = "chips have no time for parts of all kernels, nor memory for their weights"
    undecided: str = "the proof is about the undivided model"
    effort: int = 0

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool:
        """Nothing is shown about placements of a graph that is divided already."""
        return False

    def kernels(
        self, model: ir.Model, target: Target, plan: FusionPlan
    ) -> tuple[DividedKernel, ...] | None:
        """See `ProvesDivisions`."""
        return divided_kernels(model, target, plan)

    def rules_out_period(self, bound: DivisionBound, limits: PackageLimits) -> bool:
        """See `ProvesDivisions`.

        By weak duality, a chip does at most the price of all its bytes, and what the work of each
        kernel is worth beyond that of its weights. It never does more than a period.
        """
        chips, streams = limits.num_chips, limits.stream_bytes_per_s > 0.0
        if not 0 <= bound.first <= bound.last < chips or min(bound.prices, default=-1.0) < 0.0:
            return False
        if len(bound.prices) != bound.last - bound.first + 1:
            return False
        memory = sorted(limits.sram_bytes, reverse=True)
        counted: list[tuple[int, int, DividedKernel]] = []
        for kernel in bound.kernels:
            before, after = (kernel.before_bytes, kernel.after_bytes) if not streams else (0, 0)
            first = next((c for c in range(chips) if sum(memory[: c + 1]) >= before), chips - 1)
            behind = next((c for c in range(chips) if sum(memory[: c + 1]) >= after), chips - 1)
            if first >= bound.first and chips - 1 - behind <= bound.last:
                counted.append((first, chips - 1 - behind, kernel))
        period_s = bound.seconds * max(limits.chip_speed or (1.0,))
        done: list[float] = []
        for place, price in enumerate(bound.prices, bound.first):
            parts = [price * memory[0]] if price > 0.0 else [period_s]
            for first, last, kernel in counted if price > 0.0 else ():
                if first <= place <= last:
                    held = 0 if streams else kernel.weight_bytes
                    gain = kernel.seconds - kernel.untied_s - price * held
                    parts.append(kernel.untied_s + max(gain, 0.0))
            done.append(math.fsum(parts))
            if price > 0.0 and done[-1] >= period_s:
                return False  # a price that limits nothing
        return math.fsum(done) <= math.fsum(kernel.seconds for _, _, kernel in counted)


DIVISIONS = DivisionCheck()
