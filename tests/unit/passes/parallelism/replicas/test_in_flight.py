"""Sequences whose states chips hold decide between partitions and numbers of pipelines."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from mcm_passes.mapping.models import periods_of
from mcm_passes.parallelism.replicas.in_flight import InFlight, latency_s
from mcm_passes.parallelism.replicas.replicas import choose_replicas
from tests.generators.partition_problems import make_problem

UNITS, CHIPS, STATE = 8, 3, 128


def _chain(seed: int):
    """A chain of units with weights; every second one reads a state."""
    rng = np.random.default_rng(seed)
    weights = [(int(size), [u]) for u, size in enumerate(64 * rng.integers(1, 7, UNITS))]
    weights += [(STATE, [u]) for u in range(0, UNITS, 2)]
    work_us = rng.integers(5, 40, UNITS).astype(float).tolist()
    edges = list(pairwise(range(UNITS)))
    room = sum(size for size, _ in weights) // CHIPS + 64 * int(rng.integers(4, 14))
    tiny = {"tensor_bytes": 0, "relay_us": 0.0}
    problem = make_problem(work_us, edges, weights=weights, chips=CHIPS, sram=room, **tiny)
    each = np.array([0] * UNITS + [STATE] * (UNITS // 2), np.int64)
    return problem, InFlight(each)


def _best_served_us(problem, latency_us: float) -> float:
    """The least of max(period, latency / sequences) over all cuts of the chain, one by one."""
    work_us = (problem.compute_s * 1e6).tolist()
    sizes = problem.weight_bytes[:UNITS].tolist()
    best = float("inf")
    for cuts in combinations(range(UNITS + 1), CHIPS - 1):
        parts = list(pairwise((0, *cuts, UNITS)))
        free = [problem.limits.sram_bytes[0] - sum(sizes[a:b]) for a, b in parts]
        states = [len(range(a + a % 2, b, 2)) for a, b in parts]
        if min(free) < 0:
            continue
        fits = min((f // (n * STATE) for f, n in zip(free, states, strict=True) if n), default=0)
        if fits:
            period_us = max(sum(work_us[a:b]) for a, b in parts)
            best = min(best, max(period_us, latency_us / fits))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_a_first_partition_serves_as_much_as_the_best_cut_of_a_chain(seed: int) -> None:
    problem, flight = _chain(seed)
    held = flight.first(problem, 1e-6)
    found_s = max(
        periods_of(held.problem)(held.found.chip_of), flight.wait_s(problem, held.sequences)
    )
    assert found_s * 1e6 == pytest.approx(_best_served_us(problem, latency_s(problem) * 1e6))


def test_pipelines_without_memory_for_sequences_are_not_chosen() -> None:
    """Two pipelines are as fast as one, and leave memory for one sequence each."""
    weights = [(384, [u]) for u in range(4)] + [(STATE, [u]) for u in range(4)]
    edges, tiny = list(pairwise(range(4))), {"tensor_bytes": 0, "relay_us": 0.0}
    problem = make_problem([40.0] * 4, edges, weights=weights, chips=4, sram=1024, **tiny)
    flight = InFlight(np.array([0] * 4 + [STATE] * 4, np.int64))
    chosen = choose_replicas(problem, flight=flight)
    assert (chosen.replicas, chosen.chips_each) == (1, 4)
    waits = {one.replicas: one.wait_s * 1e6 for one in chosen.considered}
    assert waits[1] == pytest.approx(40.0)
    # One sequence: 160 us of work and a hop, by two pipelines.
    assert waits[2] == pytest.approx(161.0 / 2)
    fixed = choose_replicas(problem, flight=InFlight(flight.each_bytes, fixed=True))
    assert fixed.replicas == 2


def test_a_wait_counts_what_a_partition_carries_from_chip_to_chip() -> None:
    size = 32_000_000
    problem = make_problem([40.0] * 4, list(pairwise(range(4))), chips=4, tensor_bytes=size)
    carry_s = size / problem.limits.link_bytes_per_s
    flight = InFlight(np.zeros(0, np.int64))
    one, two = (
        flight.wait_s(problem, 2, np.array(chips, np.int32)) for chips in ([0] * 4, [0, 0, 1, 1])
    )
    assert two - one == pytest.approx(carry_s / 2, rel=0.01)
