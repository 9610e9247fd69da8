"""The exact search over all cuts, coarse to fine, against plain enumeration that shares no code."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from mcm_passes.parallelism.pipelines.optimal_pipeline import (
    FIRST_INTERVALS,
    best_pipeline,
    least_memory,
)
from tests.generators.pipeline_cases import random_problem
from tests.oracles.pipeline_oracle import oracle_best, oracle_length


@pytest.mark.parametrize("seed", range(40))
def test_short_chains_are_solved_as_by_trying_all(seed):
    problem = random_problem(seed)
    best, found = oracle_best(problem), best_pipeline(problem)
    if math.isinf(best):
        assert found is None
        return
    assert found is not None
    assert found.length_s == pytest.approx(best, rel=1e-9)
    assert oracle_length(problem, found.cuts, found.devices) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_devices_of_a_stage_take_whole_rows(seed):
    rng = np.random.default_rng(seed)
    rows, over = int(rng.integers(1, 8)), int(rng.integers(1, 3))
    problem = random_problem(seed, rows=rows, rows_over=over)
    best, found = oracle_best(problem), best_pipeline(problem)
    assert (found is None) == math.isinf(best)
    if found is not None:
        assert found.length_s == pytest.approx(best, rel=1e-9)
        assert oracle_length(problem, found.cuts, found.devices) == pytest.approx(best, rel=1e-9)


def long_chain(seed, parts, stages, servers=(2, 2)):
    """More cuts than there are first intervals, so that intervals are divided."""
    rng = np.random.default_rng(seed)
    small = random_problem(seed)
    devices = sum(servers)
    cut = np.zeros(parts + 1)
    cut[1:-1] = rng.choice([0.1, 1.0, 5.0], parts - 1) * rng.uniform(0.5, 1.5, parts - 1)
    forward = rng.gamma(0.3, 1.0, parts) * (rng.random(parts) < 0.8)
    weights = rng.gamma(1.0, 1.0, parts) * (rng.random(parts) < 0.4)
    weights[[0, -1]] += 0.1
    row = dataclasses.replace(
        small.devices,
        server_of=np.repeat(np.arange(len(servers), dtype=np.int32), servers),
        speed=rng.uniform(0.5, 2.0, devices),
        memory_bytes=float(rng.choice([np.inf, 4 * weights.sum() / stages * 1.3])),
    )
    return dataclasses.replace(
        small,
        forward_s=forward,
        backward_s=forward * 2.0,
        cut_bytes=cut,
        weight_bytes=weights,
        state_bytes=4 * weights,
        kept_bytes=rng.gamma(1.0, 0.1, parts),
        devices=row,
        stages=stages,
        micro_batches=int(rng.integers(1, 8)),
    )


@pytest.mark.parametrize("seed", range(8))
def test_divided_intervals_lose_nothing(seed):
    problem = long_chain(seed, 3 * FIRST_INTERVALS, 2) if seed % 2 else long_chain(seed, 30, 3)
    best, found = oracle_best(problem), best_pipeline(problem)
    assert (found is None) == math.isinf(best)
    if found is not None:
        assert found.length_s == pytest.approx(best, rel=1e-9)


def test_what_is_not_shorter_is_not_found():
    problem = long_chain(1, 60, 2)
    found = best_pipeline(problem)
    assert best_pipeline(problem, below_s=found.length_s * 0.999) is None
    again = best_pipeline(problem, below_s=found.length_s * 1.001)
    assert again.length_s == found.length_s


@pytest.mark.parametrize("seed", range(4))
def test_least_memory_of_long_chains(seed):
    problem = long_chain(seed, 30, 3)
    need = least_memory(problem)
    for factor, possible in ((1.0 + 1e-9, True), (1.0 - 1e-9, False)):
        row = dataclasses.replace(problem.devices, memory_bytes=need * factor)
        limited = dataclasses.replace(problem, devices=row)
        assert (best_pipeline(limited) is not None) == possible
        if seed == 0:
            assert math.isfinite(oracle_best(limited)) == possible
