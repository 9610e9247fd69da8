"""The cost `ring`: periods in the times of the file, bounds below all placements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.placement import PlacementRequest
from mcm_compiler.placements.placement_file import placement_from_json
from mcm_passes.families.ring.placement_constraints.ring_placement import RingPlacement
from tests.generators.placement_examples import node, problem_data


def ring_period(data: dict[str, Any], chip: list[int]) -> float:
    """The busiest chip or link; infinite where data would flow against the ring."""
    chips = data["maxFPGAs"]
    busy = [0.0] * chips
    for entry, c in zip(data["nodes"], chip, strict=True):
        busy[c] += entry["fpgaLatency"]
    last = dict(enumerate(chip))
    cost: dict[int, float] = {}
    for edge in data["edges"]:
        u, v = edge["sourceId"], edge["destId"]
        if chip[v] < chip[u]:
            return float("inf")
        cost[u], last[u] = edge["cost"], max(last[u], chip[v])
    links = [sum(t for u, t in cost.items() if chip[u] <= c < last[u]) for c in range(chips - 1)]
    return max(*busy, *links)


@pytest.mark.parametrize("part", range(3))
def test_periods_are_those_of_the_file(part: int) -> None:
    for seed in range(part, 24, 3):
        rng = np.random.default_rng([seed, 6])
        n = int(rng.integers(2, 7))
        # A few dear transfers, so that links count, and times that no sum of bytes gives.
        times = np.round(rng.uniform(0.0, 1.0, n) / 3.0, int(rng.integers(1, 9)))
        cost = (rng.uniform(0.0, 1.0, n) * rng.choice([1e-6, 0.1, 1.0], n)).tolist()
        pairs = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.5]
        nodes = [node(v, float(times[v]), size=0.0) for v in range(n)]
        data = problem_data(nodes, [(u, v, cost[u]) for u, v in pairs], maxFPGAs=3)
        problem = placement_from_json(data, "graph.json")
        found = RingPlacement().place(
            PlacementRequest(problem=problem, rule="relay", evaluations=300)
        )
        own = ring_period(data, found.device_of.tolist())
        assert found.period == pytest.approx(own, rel=1e-14, abs=1e-300), seed
        least = min(ring_period(data, list(c)) for c in itertools.product(range(3), repeat=n))
        assert found.lower_bound <= least * (1.0 + 1e-14), seed
        if found.gap == 0.0:
            assert found.period == pytest.approx(least, rel=1e-14), seed
