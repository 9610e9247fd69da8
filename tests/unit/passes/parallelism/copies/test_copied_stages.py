"""Stages copied unequally: against all chains, within memory, on chips of several speeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.unrolled_problem import unrolled
from mcm_passes.parallelism.copies.copied_rounds import fastest_round
from mcm_passes.parallelism.copies.copied_stages import CopiedStages, StageTimes
from mcm_passes.parallelism.copies.stage_windows import stage_windows
from mcm_passes.parallelism.divisions.division_estimate import PeriodEstimate
from tests.generators.partition_problems import make_problem
from tests.oracles.copied_chains import least_chain_s


def chain(work_us, **choices):
    """Units in a row; their tensors take next to nothing."""
    edges = [(u, u + 1) for u in range(len(work_us) - 1)]
    return make_problem(work_us, edges, relay_us=0.0, tensor_bytes=0, **choices)


def fastest(problem, classes):
    windows = stage_windows(problem, np.arange(problem.num_units, dtype=np.int32))
    stages = CopiedStages(StageTimes(problem, windows), classes)
    return stages.fastest(problem.num_chips, classes * float(problem.compute_s.sum()))


@pytest.mark.parametrize("seed", range(12))
def test_least_chain(seed):
    rng = np.random.default_rng(seed)
    n, chips, classes = (int(rng.integers(low, high)) for low, high in ((2, 6), (2, 7), (2, 7)))
    work = rng.integers(1, 40, n).tolist()
    weights = (rng.integers(1, 9, n) * 64).tolist()
    sram = int(rng.integers(max(weights), sum(weights) + 64)) // 64 * 64
    problem = chain(
        work, chips=chips, sram=sram, weights=[(size, [u]) for u, size in enumerate(weights)]
    )
    least_s = least_chain_s([1e-6 * one for one in work], weights, chips, classes, sram)
    found = fastest(problem, classes)
    if found is None:
        assert least_s >= classes * 1e-6 * sum(work)
        return
    placed = evaluate(unrolled(problem, classes), found.chip_of.ravel())
    assert placed.valid
    assert placed.period_s == pytest.approx(least_s, rel=2e-3)


def test_groups_nest():
    # Two groups of a heavy stage with two copies and a light one: no other chain is balanced.
    problem = chain([20, 10], chips=6)
    found = fastest(problem, 4)
    assert found is not None
    chip_of = found.chip_of
    assert evaluate(unrolled(problem, 4), chip_of.ravel()).period_s == pytest.approx(
        20e-6, rel=0.01
    )
    assert len({tuple(row) for row in chip_of.tolist()}) == 4


def test_weights_force_stages():
    weights = [(64, [0]), (640, [1])]
    problem = chain([30, 10], chips=4, sram=640, weights=weights)
    found = fastest_round(problem, [(1, 4)], range(2, 5), 1.0)
    assert found is not None
    assert (found.replicas, found.classes) == (1, 3)
    assert found.seconds == pytest.approx(10e-6)
    placed = evaluate(unrolled(problem, 3), found.chip_of)
    assert placed.weight_bytes.tolist() == [64, 64, 64, 640]


def test_faster_chips_get_more():
    problem = chain([30, 30], chips=3, speeds=(0.5, 1.0, 1.0))
    found = fastest_round(problem, [(1, 3)], (2, 3, 4), 60e-6)
    assert found is not None
    assert found.seconds <= 30e-6


def test_no_round_without_gain():
    problem = chain([10, 10, 10], chips=3)
    assert fastest_round(problem, [(1, 3)], range(2, 13), 10e-6 * 0.99) is None


def test_period_without_a_limit():
    # Rounds that users ask for have nothing to undercut.
    problem = chain([30, 10], chips=4)
    found = fastest_round(problem, [(1, 4)], (3,), float("inf"))
    assert found is not None
    assert found.seconds == pytest.approx(10e-6, rel=2e-3)


def test_same_round_each_time():
    problem = chain([7, 31, 5, 12], chips=7)
    first, second = (fastest_round(problem, [(1, 7)], range(2, 9), 1.0) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.classes == second.classes
    np.testing.assert_array_equal(first.chip_of, second.chip_of)


def test_long_orders_are_in_blocks():
    problem = chain([1.0] * 600, chips=4)
    found = fastest_round(problem, [(1, 4)], (2,), 200e-6)
    assert found is not None
    assert found.seconds == pytest.approx(150e-6, rel=0.02)


def test_blocks_divide_weights_of_light_units():
    weights = [(64, [u]) for u in range(300)]
    problem = chain([1e-6] * 300 + [30.0], chips=6, sram=64 * 160, weights=weights)
    found = fastest_round(problem, [(1, 6)], (2, 4), 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(30e-6 / 4, rel=0.01)


def test_what_is_behind_a_heavy_unit_has_another_block():
    problem = chain([1e-3] * 4, weights=[(640, [1])])
    blocks = stage_windows(problem, np.arange(4, dtype=np.int32), 3).block_of
    assert blocks[1] < blocks[2]


@pytest.mark.parametrize(
    ("rounds", "sent", "period_us"), [(1, 0, 20.0), (2, 0, 15.0), (2, 64, 20.0)]
)
def test_estimates_know_classes_with_bounds_of_their_own(rounds, sent, period_us):
    weights = [(64, [0]), (64, [1]), (64, [2])]
    problem = chain([10, 10, 10], chips=2, sram=128, weights=weights)
    problem = replace(problem, tensor_bytes=np.array([0, sent, sent, 0]))
    estimate = PeriodEstimate(problem, 0.0, [(1, 2)], (), rounds)
    assert estimate.reachable_s({}) == pytest.approx(1e-6 * period_us, rel=2e-3)


def test_classes_have_bounds_of_their_own():
    # No chip has the memory for all units; the middle one is on a chip for each class.
    weights = [(64, [0]), (64, [1]), (64, [2])]
    problem = chain([10, 10, 10], chips=2, sram=128, weights=weights)
    found = fastest_round(problem, [(1, 2)], (2, 3), 20e-6)
    assert found is not None
    assert found.classes == 2
    assert found.seconds == pytest.approx(15e-6)
    assert found.chip_of.tolist() == [0, 0, 1, 0, 1, 1]


def test_classes_take_turns_where_weights_are_heavy():
    # Copies of both units share no chip, and all classes of the second need its weights once.
    problem = chain([70, 6], chips=3, sram=768, weights=[(64, [0]), (640, [1])])
    found = fastest_round(problem, [(1, 3)], (4,), 1.0)
    assert found is not None
    assert found.seconds == pytest.approx(35e-6)
    assert found.chip_of.tolist() == [0, 2, 0, 2, 1, 2, 1, 2]
    estimate = PeriodEstimate(problem, 0.0, [(1, 3)], (), 4)
    assert estimate.reachable_s({}) == pytest.approx(35e-6, rel=2e-3)
