"""The referee of latency: by hand, against rounds of waiting, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_passes.mapping.latency_placement.latency_kernels import latency_arrays, latency_of
from mcm_passes.mapping.latency_placement.latency_referee import latency_outcome
from tests.generators.placement_examples import example, node
from tests.oracles.plain_latency import plain_latency


def line(**fields):
    """Three operators in a row, 1, 2 and 4 on accelerators, transfers 0.5 and 0.25."""
    nodes = [node(0, 1.0), node(1, 2.0), node(2, 4.0)]
    return example(nodes, [(0, 1, 0.5), (1, 2, 0.25)], **{"maxCPUs": 1, **fields})


@pytest.mark.parametrize(
    ("place", "latency", "busy"),
    [
        ([0, 0, 0], 7.0, [7.0, 0.0, 0.0]),
        # 1 + send 0.5, then receive 0.5 + 2 + 4.
        ([0, 1, 1], 8.0, [1.5, 6.5, 0.0]),
        # The CPU pays for no transfers: 10, then receive 0.5 + 2 + 4.
        ([2, 0, 0], 16.5, [6.5, 0.0, 10.0]),
        ([2, 2, 2], 70.0, [0.0, 0.0, 70.0]),
    ],
)
def test_by_hand(place, latency, busy):
    outcome = latency_outcome(line(), np.array(place))
    assert outcome.latency == latency
    assert outcome.busy.tolist() == busy
    assert not outcome.violations


def test_an_output_travels_once_to_each_part():
    nodes = [node(v, 1.0) for v in range(3)]
    problem = example(nodes, [(0, 1, 0.5), (0, 2, 0.5)])
    assert latency_outcome(problem, np.array([0, 1, 1])).latency == 1.0 + 0.5 + 0.5 + 2.0


@pytest.mark.parametrize(
    ("place", "fields", "word"),
    [
        ([0, 1, 0], {}, "not contiguous"),
        ([0, 2, 0], {}, "not contiguous"),
        ([0, 0, 0], {"maxSizePerFPGA": 2.0}, "needs 3 bytes and has 2"),
    ],
)
def test_what_is_not_allowed(place, fields, word):
    (violation,) = latency_outcome(line(**fields), np.array(place)).violations
    assert word in violation


def test_kinds_of_devices_and_colors():
    nodes = [node(0, 1.0, supportedOnFpga=0, colorClass=3), node(1, 1.0, colorClass=3)]
    problem = example(nodes, [], maxCPUs=1)
    found = " / ".join(latency_outcome(problem, np.array([0, 2])).violations)
    assert "cannot run it" in found
    assert "have one color and are on accelerator 0 and the CPU" in found


def test_devices_that_are_not_there():
    with pytest.raises(ValueError, match="devices"):
        latency_outcome(line(maxCPUs=0), np.array([0, 2, 2]))


@pytest.mark.parametrize("seed", range(30))
def test_referee_and_kernel_agree_with_rounds_of_waiting(seed):
    rng = np.random.default_rng([seed, 7])
    n = int(rng.integers(2, 9))
    cost = rng.integers(0, 9, n).astype(float).tolist()
    nodes = [node(v, float(rng.integers(1, 9))) for v in range(n)]
    edges = [(u, v, cost[u]) for u in range(n) for v in range(u + 1, n) if rng.random() < 0.4]
    problem = example(nodes, edges, maxFPGAs=3, maxCPUs=n)
    for _ in range(10):
        place = rng.integers(0, 4, n)
        want = plain_latency(problem, place.tolist())
        assert latency_outcome(problem, place).latency == pytest.approx(want)
        arrays = latency_arrays(problem)
        assert latency_of(arrays, place.astype(np.int32)) == pytest.approx(want)
