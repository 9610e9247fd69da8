"""When one inference is answered, against a plain reading of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_passes.families.ring.objectives.ring_objectives import RingLatency
from mcm_passes.mapping.machine.evaluation import evaluate
from tests.generators.partition_problems import connected_problems, make_problem, problems
from tests.oracles.plain_objectives import PlainPlacement, every_placement


@settings(max_examples=60)
@given(problems(max_units=4) | connected_problems(max_units=4), st.randoms(use_true_random=False))
def test_equals_the_plain_reading(problem, random):
    needed = problem.at_need()
    latency = RingLatency(needed)
    placements = every_placement(needed)
    for chips in random.sample(placements, min(len(placements), 25)):
        plain = PlainPlacement(needed, chips).figures()
        fast = evaluate(needed, np.array(chips, np.int32))
        assert fast.valid == (plain.period_s < float("inf"))
        assert latency(np.array(chips, np.int32)) == pytest.approx(plain.latency_s, rel=1e-9)
        if fast.valid:
            assert fast.period_s == pytest.approx(plain.period_s, rel=1e-9)


def test_a_chain_over_two_chips_by_hand():
    problem = make_problem([4, 6], [(0, 1)], chips=2, tensor_bytes=1000)
    latency = RingLatency(problem)
    # In 1 us, 4 us of work, out 1 us; on two chips also 1 us over the link and 1 us of delay.
    assert latency(np.array([0, 0])) == pytest.approx(12e-6)
    assert latency(np.array([0, 1])) == pytest.approx(14e-6)
    assert latency(np.array([1, 0])) == float("inf")


def test_parallel_branches_gain_from_a_second_chip():
    problem = make_problem([5, 5, 1], [(0, 2), (1, 2)], chips=2, tensor_bytes=1000)
    latency = RingLatency(problem)
    one_chip = latency(np.array([0, 0, 0]))
    assert one_chip == pytest.approx(13e-6)
    assert latency(np.array([0, 1, 1])) == pytest.approx(1e-6 + 5e-6 + 2e-6 + 1e-6 + 1e-6)
