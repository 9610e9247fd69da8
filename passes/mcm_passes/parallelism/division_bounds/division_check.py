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

        By weak duality, a chip does at most the price of its bytes, and what the work of each
        kernel is worth beyond that of its weights. It never does more than a period. Memory for
        forced weights has no price. The first op on the chip that forces them comes behind the
        kernels that use them. So these are not there, or all of their work counts. Without places,
        the outputs take as long to leave.
        """
        chips, memory = limits.num_chips, sorted(limits.sram_bytes, reverse=True)
        channels = min(chips, 2) if limits.host_io == "ends" else chips
        rate = min(limits.host_bytes_per_s * channels, limits.host_total_bytes_per_s or math.inf)
        p, q, prices, forced = bound.first, bound.last, bound.prices, bound.forced_bytes
        if not (p or q or prices or forced):
            return bound.seconds * rate <= sum(kernel.leaving_bytes for kernel in bound.kernels)
        if not 0 <= p <= q < chips or not len(prices) == len(forced) == q - p + 1:
            return False
        if min(*prices, *forced) < 0:
            return False
        period_s = bound.seconds * max(limits.chip_speed or (1.0,))
        streams = limits.stream_bytes_per_s > 0.0
        sums = [math.inf if streams else sum(memory[:n]) for n in range(chips + 1)]
        done: list[float] = []
        for c, price, least in zip(range(p, q + 1), prices, forced, strict=True):
            parts = [price * max(memory[0] - least, 0)]
            for k in bound.kernels:
                if k.before_bytes <= sums[c + 1] and k.after_bytes <= sums[chips - c]:
                    ahead = k.before_bytes - sums[c]
                    if c >= (chips + 1) // 2:
                        ahead = k.after_bytes - sums[chips - 1 - c]
                    weight = 0 if streams else k.weight_bytes
                    gain = max(k.seconds - k.untied_s - price * weight, 0.0) + k.untied_s
                    parts.append(gain if max(ahead, 0) >= least else k.seconds)
            if price + least > 0 and math.fsum(parts) >= period_s:
                return False  # a price that limits nothing
            done.append(min(math.fsum(parts), period_s))
        only_here = [
            kernel.seconds
            for kernel in bound.kernels
            if (p == 0 or kernel.before_bytes > sums[p])
            and (q == chips - 1 or kernel.after_bytes > sums[chips - 1 - q])
        ]
        return math.fsum(done) <= math.fsum(only_here)


DIVISIONS = DivisionCheck()
