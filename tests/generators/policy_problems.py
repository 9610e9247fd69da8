"""Small problems for policies, and policies that are small."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_models.policy.layout import PolicyLayout

OPS = ("Conv", "Relu", "MatMul", "Add", "Softmax", "NoSuchOp")


def make_problem(
    seed, n=12, chips=4, routing="relay", density=0.3, pins=(), clones=0, sram=1 << 20
):
    """A random graph of `n` units; the first `clones` are clonable."""
    rng = np.random.default_rng(seed)
    rows = [[v for v in range(u + 1, n) if rng.random() < density] for u in range(n)]
    pinned = np.full(n, -1, np.int32)
    for unit, chip in pins:
        pinned[unit] = chip
    return PartitionProblem(
        names=tuple(f"u{u}" for u in range(n)),
        members=tuple((f"u{u}",) for u in range(n)),
        compute_s=rng.integers(1, 20, n) * 1e-6,
        clonable=np.arange(n) < clones,
        pinned_chip=pinned,
        tensor_names=tuple(f"t{u}" for u in range(n)),
        tensor_bytes=rng.integers(1, 1000, n),
        tensor_producer=np.arange(n, dtype=np.int32),
        tensor_ptr=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        tensor_consumers=np.array([v for row in rows for v in row], np.int32),
        tensor_to_host=np.array([not row for row in rows]),
        relay_s=np.full(n, 1e-7),
        weight_names=tuple(f"w{u}" for u in range(n)),
        weight_bytes=rng.integers(0, 5000, n),
        weight_ptr=np.arange(n + 1, dtype=np.int64),
        weight_users=np.arange(n, dtype=np.int32),
        limits=PackageLimits(chips, (sram,) * chips, 1e9, 1e-6, "any", 1e9),
        routing=routing,
        op_types=tuple(OPS[u % len(OPS)] for u in range(n)),
    )


def small_policy(knots=4, iterations=1, around=3):
    """The layout of a policy of two narrow layers."""
    return PolicyLayout(2, 16, 16, knots, iterations, 4, around)
