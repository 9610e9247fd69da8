"""Problems that have something to find, and an evaluator with other times than the fast model's."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.mapping.machine.evaluation import evaluate


def branching_problem(routing="relay", chips=6, sram=1 << 20, pins=(), chains=4, length=8):
    """Four parallel chains of eight units between a source and a sink, with uneven work."""
    rng = np.random.default_rng(5)
    n = chains * length + 2
    rows: list[list[int]] = [[1 + k * length for k in range(chains)]]
    rows += [[n - 1 if u % length == 0 else u + 1] for u in range(1, n - 1)]
    rows.append([])
    pinned = np.full(n, -1, np.int32)
    for unit, chip in pins:
        pinned[unit] = chip
    limits = PackageLimits(chips, (sram,) * chips, 1e9, 1e-6, "any", 1e9)
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=rng.integers(1, 20, n) * 1e-6,
        clonable=np.zeros(n, np.bool_),
        pinned_chip=pinned,
        tensor_names=("x", *(f"t{u}" for u in range(n))),
        tensor_bytes=np.full(n + 1, 256, np.int64),
        tensor_producer=np.arange(-1, n, dtype=np.int32),
        tensor_ptr=np.cumsum([0, 1, *map(len, rows)]).astype(np.int64),
        tensor_consumers=np.array([0, *(v for row in rows for v in row)], np.int32),
        tensor_to_host=np.arange(n + 1) == n,
        relay_s=np.full(n + 1, 1e-7),
        weight_names=tuple(f"w{u}" for u in range(n)),
        weight_bytes=np.full(n, 1000, np.int64),
        weight_ptr=np.arange(n + 1, dtype=np.int64),
        weight_users=np.arange(n, dtype=np.int32),
        limits=limits,
        routing=routing,
    )


class TrueTimes:
    """An evaluator under which units take other times than the fast model says."""

    name = "true times"

    def __init__(self, problem, factor):
        self.problem = problem
        self.factor = factor
        self.asked = 0

    def evaluate(self, partitions):
        count, chips = len(partitions), self.problem.num_chips
        self.asked += count
        busy, link = np.zeros((count, chips)), np.zeros((count, chips))
        kind = np.zeros(count, np.int32)
        for b, row in enumerate(partitions):
            result = evaluate(self.problem, row)
            kind[b] = ResultKind.RUNS if result.valid else ResultKind.BREAKS_RULE
            times = self.problem.compute_s * self.factor
            relays = result.chip_busy_s - np.bincount(
                result.chip_of, self.problem.compute_s, minlength=chips
            )
            busy[b] = np.bincount(result.chip_of, times, minlength=chips) + relays
            link[b, : chips - 1] = result.channel_busy_s[: chips - 1]
        period = np.where(kind == ResultKind.RUNS, np.maximum(busy.max(1), link.max(1)), np.inf)
        memory = np.zeros((count, chips), np.int64)
        return BatchResults(kind, period, period, memory, busy, link)
