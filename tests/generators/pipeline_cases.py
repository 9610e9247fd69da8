"""Small pipeline problems with random numbers, and the best pipeline by trying all."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mcm_models.pipelines.problem import DeviceRow, PipelineProblem, PipelineTables, pipeline_tables
from tests.oracles.pipeline_length import StageTimes, lengths_of, stage_times


def feasible(tables: PipelineTables, times: StageTimes, xp):
    """`[...]`, whether every stage has weights and fits into the memory of its devices."""
    return xp.all((times.memory <= tables.memory) & times.with_weights, axis=-1)


def random_problem(seed: int, **changes) -> PipelineProblem:
    """Uneven parts and servers; which resource rules differs from seed to seed."""
    rng = np.random.default_rng(seed)
    parts = int(rng.integers(3, 9))
    servers = rng.integers(1, 4, int(rng.integers(1, 4)))
    count = int(servers.sum())
    forward = rng.gamma(1.0, 1.0, parts)
    cut = np.zeros(parts + 1)
    cut[1:-1] = rng.gamma(1.0, 1.0, parts - 1) * 10.0 ** rng.uniform(-1, 1)
    weights = rng.gamma(1.0, 1.0, parts) * 10.0 ** rng.uniform(-1, 2)
    weights *= rng.random(parts) < 0.8
    weights[0] += 1.0
    row = DeviceRow(
        server_of=np.repeat(np.arange(len(servers), dtype=np.int32), servers),
        speed=np.repeat(rng.uniform(0.5, 2.0, len(servers)), servers),
        memory_bytes=float(rng.choice([np.inf, 1.2 * 4 * weights.sum() / 2])),
        intra_bytes_per_s=10.0,
        inter_bytes_per_s=float(rng.uniform(0.5, 5.0)),
        intra_latency_s=0.01,
        inter_latency_s=0.02,
    )
    numbers = {
        "forward_s": forward,
        "backward_s": forward * rng.uniform(1.0, 3.0, parts),
        "cut_bytes": cut,
        "weight_bytes": weights,
        "state_bytes": 4 * weights,
        "kept_bytes": rng.gamma(1.0, 0.1, parts),
        "devices": row,
        "stages": int(rng.integers(1, min(parts, count, 4) + 1)),
        "micro_batches": int(rng.integers(1, 20)),
        "schedule": str(rng.choice(["1f1b", "gpipe"])),
        "recompute": bool(rng.random() < 0.5),
        "training": bool(rng.random() < 0.8),
    }
    return PipelineProblem(**{**numbers, **changes})


def every_pipeline(problem: PipelineProblem) -> tuple[np.ndarray, np.ndarray]:
    """All cuts with all device cuts, `[N, S - 1]` each."""
    inner = problem.stages - 1
    cuts = list(combinations(range(1, problem.num_parts), inner))
    places = list(combinations(range(1, problem.devices.num_devices), inner))
    pairs = [(c, d) for c in cuts for d in places]
    shape = (len(pairs), inner)
    return (
        np.array([c for c, _ in pairs], np.int64).reshape(shape),
        np.array([d for _, d in pairs], np.int64).reshape(shape),
    )


def least_length(problem: PipelineProblem) -> float:
    """Length of the best of all pipelines; infinite where none fits."""
    tables = pipeline_tables(problem)
    cuts, places = every_pipeline(problem)
    if not len(cuts):
        return np.inf
    times = stage_times(tables, cuts, places, np)
    lengths = np.where(feasible(tables, times, np), lengths_of(tables, times, np), np.inf)
    return float(lengths.min())
