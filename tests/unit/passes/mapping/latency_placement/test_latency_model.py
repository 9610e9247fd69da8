"""CP-SAT's model of latency: its optimum is that of all placements, its bound below it."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.placements.placement_file import placement_from_json
from mcm_passes.mapping.latency_placement.latency_kernels import latency_arrays
from mcm_passes.mapping.latency_placement.latency_placement import TICKS, solve_latency
from mcm_passes.mapping.latency_placement.latency_referee import latency_outcome
from tests.generators.placement_examples import random_file
from tests.oracles.least_latency import least_latency


@pytest.mark.parametrize("seed", [1, 2, 3, 6, 9, 10])
def test_the_optimum_is_found_from_the_cpu_alone(seed):
    data = {**random_file(seed), "maxFPGAs": 2, "maxCPUs": 7}
    problem = placement_from_json(data, "graph.json")
    p = latency_arrays(problem)
    start = np.full(p.size_bytes.size, p.accelerators, np.int32)
    latency = latency_outcome(problem, start[p.unit_of]).latency
    found = solve_latency(p, start, latency, Budget())
    least = least_latency(data)
    assert found.optimal
    rounding = problem.num_operators * 4 * latency / TICKS
    outcome = latency_outcome(problem, found.device_of[p.unit_of])
    assert not outcome.violations
    assert least <= outcome.latency <= least + rounding
    assert least - rounding <= found.bound <= least * (1.0 + 1e-9)
