"""Channels that all chips share: the fast model, compiled forms and bounds against plain sums."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.certificate.stored_problem import problem_from_arrays, problem_to_arrays
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.mapping.bounds import bounds
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.generators.partition_problems import connected_problems, forward_placement, make_problem
from tests.oracles.ring_channels import ring_channels
from tests.oracles.shown_bounds import verify_bound
from tools.memory_oracle.plain_period import plain_period

RATES = st.sampled_from([1e7, 2e8, 2e9])


def with_roots(problem, host, stream=0.0):
    limits = dataclasses.replace(
        problem.limits, host_total_bytes_per_s=host, stream_total_bytes_per_s=stream
    )
    return dataclasses.replace(problem, limits=limits)


@given(connected_problems(), RATES, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_fast_model_agrees_with_plain_sums_over_tensors(problem, host, random):
    limits = dataclasses.replace(problem.limits, sram_bytes=(1 << 30,) * problem.num_chips)
    problem = with_roots(dataclasses.replace(problem, limits=limits), host)
    chip_of = forward_placement(problem, random)
    found = evaluate(problem, chip_of).period_s
    assert found == pytest.approx(plain_period(problem, chip_of.tolist()), rel=1e-12)


@given(connected_problems(), RATES, RATES, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_compiled_form_counts_roots_as_the_fast_model_does(problem, host, stream, random):
    problem = with_roots(problem, host, stream)
    rows = np.stack([forward_placement(problem, random) for _ in range(8)])
    found = AnalyticPeriods(problem, few=0).periods(rows)
    assert found.tolist() == pytest.approx([period(problem, row) for row in rows], rel=1e-12)


@given(connected_problems(), RATES)
@settings(max_examples=60)
def test_bounds_of_shared_channels_are_shown_again(problem, host):
    problem = with_roots(problem, host).at_need()
    assert verify_bound(problem, bounds.host_transfers(problem))
    assert verify_bound(problem, bounds.streamed_weights(problem))
    assert verify_bound(problem, bounds.lower_bound(problem))


@given(connected_problems())
@settings(max_examples=30)
def test_a_channel_in_common_is_never_faster_than_none(problem):
    alone = bounds.host_transfers(with_roots(problem, 0.0)).seconds
    wide = bounds.host_transfers(with_roots(problem, 1e15)).seconds
    narrow = bounds.host_transfers(with_roots(problem, 1e5)).seconds
    assert alone == wide <= narrow


def test_what_two_chips_read_crosses_the_root_twice():
    # A clone reads the input, and two units on two chips read what it makes.
    problem = make_problem(
        [0, 1, 1], [(0, 1), (0, 2)], chips=2, clonable=[0], tensor_bytes=1000, host_root=1e8
    )
    once = evaluate(problem, np.zeros(3, np.int32))
    twice = evaluate(problem, np.array([0, 0, 1], np.int32))
    assert ring_channels(problem, once.channel_busy_s).roots.tolist() == pytest.approx([1e-5, 2e-5])
    assert ring_channels(problem, twice.channel_busy_s).roots.tolist() == pytest.approx(
        [2e-5, 2e-5]
    )
    assert twice.period_s == pytest.approx(2e-5)


def test_all_that_is_streamed_crosses_one_channel():
    weights = [(4096, [0]), (4096, [1])]
    problem = make_problem(
        [1, 1],
        [(0, 1)],
        chips=2,
        weights=weights,
        sram=2048,
        tensor_bytes=64,
        stream=1e9,
        stream_root=1e8,
    ).at_need()
    found = evaluate(problem, np.array([0, 1], np.int32))
    assert found.valid
    assert found.period_s == pytest.approx(float(found.streamed_bytes.sum()) / 1e8)
    assert bounds.streamed_weights(problem).seconds == pytest.approx(4096 / 1e8)


@given(connected_problems(), RATES, st.integers(2, 5), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_a_part_of_the_channel_says_what_all_pipelines_take_together(
    problem, host, pipelines, random
):
    limits = dataclasses.replace(problem.limits, host_io="any", stream_bytes_per_s=0.0)
    problem = with_roots(dataclasses.replace(problem, limits=limits), host)
    share = dataclasses.replace(problem, limits=problem.limits.first(3, pipelines))
    chip_of = forward_placement(problem, random)
    alone, part = evaluate(problem, chip_of), evaluate(share, chip_of)
    roots = ring_channels(problem, alone.channel_busy_s).roots
    package_s = max(alone.period_s / pipelines, float(roots.max(initial=0.0)))
    assert part.period_s / pipelines == pytest.approx(package_s, rel=1e-12)


def test_pipelines_part_the_channel_to_the_host_and_share_what_they_stream():
    limits = PackageLimits(
        8, (1,) * 8, 1e9, 1e-6, "any", 1e9,
        host_total_bytes_per_s=6e9, stream_total_bytes_per_s=3e9,
    )  # fmt: skip
    share = limits.first(2, 3)
    assert (share.host_root_bytes_per_s, share.stream_root_bytes_per_s) == (2e9, 3e9)
    assert share.host_bytes_per_s == limits.host_bytes_per_s
    assert limits.first(8) == limits


def test_a_package_without_shared_channels_has_none_in_its_certificate():
    alone = make_problem([1, 1], [(0, 1)])
    arrays, machine = problem_to_arrays(alone)
    assert not [key for key in machine if "total" in key]
    assert problem_from_arrays(arrays, machine, alone.routing).limits == alone.limits
    shared = with_roots(alone, 2e9, 1e9)
    arrays, machine = problem_to_arrays(shared)
    assert machine["host_total_bytes_per_s"] == 2e9
    assert machine["off_package_total_bytes_per_s"] == 1e9
    assert problem_from_arrays(arrays, machine, shared.routing).limits == shared.limits
