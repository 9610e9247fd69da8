"""Synthetic pipeline problems to learn the policy on, and to hold out.

Servers differ in devices and speed, and costs of parts rise, fall, jump and scatter, so that the
best device cuts are not always the starts of servers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcm_models.pipelines.problem import DeviceRow, Floats, PipelineProblem

POSITIONS = 128
"""Parts of a case, and of a model that the policy is asked about (Auto-MAP, section 4.4)."""

MAX_SERVERS, MAX_DEVICES = 4, 48


def random_case(rng: np.random.Generator) -> PipelineProblem:
    """One training iteration of a model of `POSITIONS` parts on 2 to 4 servers."""
    servers = int(rng.choice([2, 3, 4], p=[0.15, 0.25, 0.6]))
    row = _devices(rng, servers)
    forward = _profile(rng, POSITIONS)
    forward /= forward.sum()
    slot = 1.0 / float(row.speed.sum())
    transfer = slot * 10.0 ** rng.uniform(-2.0, -0.5)
    cut = np.zeros(POSITIONS + 1)
    cut[1:-1] = _activations(rng, POSITIONS - 1) * transfer * row.inter_bytes_per_s
    weights = _weights(rng, forward)
    micro_batches = int(rng.integers(8, 33))
    # What sending all gradients over the network once takes, in iterations.
    share = 10.0 ** rng.uniform(-0.3, 0.8)
    weights *= share * slot * micro_batches * row.inter_bytes_per_s
    return PipelineProblem(
        forward_s=forward,
        backward_s=forward * float(rng.choice([2.0, 3.0])),
        cut_bytes=cut,
        weight_bytes=weights,
        state_bytes=np.zeros(POSITIONS),
        kept_bytes=np.zeros(POSITIONS),
        devices=row,
        stages=servers,
        micro_batches=micro_batches,
    )


def random_cases(count: int, seed: int) -> list[PipelineProblem]:
    """`count` cases; case k depends on `seed` and k alone."""
    return [random_case(np.random.default_rng([seed, k])) for k in range(count)]


def _devices(rng: np.random.Generator, servers: int) -> DeviceRow:
    sizes = np.full(servers, 8) if rng.random() < 0.25 else rng.integers(5, 12, servers)
    even = rng.random() < 0.3
    speeds = np.ones(servers) if even else np.exp(rng.uniform(-0.3, 0.3, servers))
    inter = 3.125e9 * 10.0 ** rng.uniform(-0.3, 1.0)
    return DeviceRow(
        server_of=np.repeat(np.arange(servers, dtype=np.int32), sizes),
        speed=np.repeat(speeds, sizes),
        memory_bytes=np.inf,
        intra_bytes_per_s=150e9,
        inter_bytes_per_s=inter,
    )


def _profile(rng: np.random.Generator, size: int) -> Floats:
    """Seconds of parts: a trend, jumps between stacks, layers, scatter and heavy parts."""
    at = np.linspace(0.0, 1.0, size)
    costs = np.exp(rng.uniform(-1.0, 1.0) * at)
    for _ in range(int(rng.integers(0, 3))):
        costs[int(rng.integers(1, size)) :] *= np.exp(rng.uniform(-1.0, 1.0))
    period = int(rng.integers(1, 9))
    costs *= np.resize(np.exp(rng.uniform(-0.7, 0.7, period)), size)
    costs *= np.exp(rng.normal(0.0, rng.choice([0.0, 0.1, 0.4]), size))
    for place in rng.choice([0, size - 1, int(rng.integers(size))], int(rng.integers(0, 3))):
        costs[place] += costs.sum() * rng.uniform(0.01, 0.08)
    return costs


def _activations(rng: np.random.Generator, size: int) -> Floats:
    """Bytes at cuts, about 1: small at layer boundaries, larger inside layers, a trend, scatter."""
    period = int(rng.integers(1, 9))
    inside = np.exp(rng.uniform(0.0, rng.choice([0.3, 1.0, 2.0]), period))
    inside[0] = 1.0
    sizes = np.resize(inside, size) * np.exp(rng.uniform(-1.0, 0.5) * np.linspace(0.0, 1.0, size))
    return sizes * np.exp(rng.normal(0.0, rng.choice([0.0, 0.2]), size))


def _weights(rng: np.random.Generator, forward: Floats) -> Floats:
    """Bytes of parts, summing to 1: in proportion to time, or rising, with tables at the ends."""
    size = len(forward)
    weights: NDArray[np.float64] = forward * np.exp(
        rng.uniform(-1.0, 1.0) * np.linspace(0.0, 2.0, size) + rng.normal(0.0, 0.3, size)
    )
    for place in (0, size - 1):
        if rng.random() < 0.4:
            weights[place] += weights.sum() * rng.uniform(0.02, 0.2)
    return weights / weights.sum()
