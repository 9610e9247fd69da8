"""The formula on pipelines whose length is known by hand, and its twins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_models.pipelines.kernels import length_s, transfer_s
from mcm_models.pipelines.problem import DeviceRow, PipelineProblem, pipeline_tables
from tests.oracles.pipeline_length import stage_times


def two_servers(**changes) -> PipelineProblem:
    """Four parts on two servers of two devices, with round numbers."""
    row = DeviceRow(
        server_of=np.array([0, 0, 1, 1], np.int32),
        speed=np.ones(4),
        memory_bytes=100.0,
        intra_bytes_per_s=10.0,
        inter_bytes_per_s=1.0,
    )
    numbers = {
        "forward_s": np.full(4, 2.0),
        "backward_s": np.full(4, 4.0),
        "cut_bytes": np.array([0.0, 1.0, 1.0, 1.0, 0.0]),
        "weight_bytes": np.full(4, 5.0),
        "state_bytes": np.full(4, 20.0),
        "kept_bytes": np.full(4, 2.0),
        "devices": row,
        "stages": 2,
        "micro_batches": 3,
    }
    return PipelineProblem(**{**numbers, **changes})


def length(problem, cuts, devices):
    tables = pipeline_tables(problem)
    parts = np.array([0, *cuts, problem.num_parts], np.int64)
    places = np.array([0, *devices, problem.devices.num_devices], np.int64)
    return length_s(tables, parts, places)


def test_one_forward_one_backward_by_hand():
    # Stage: (2 + 2) / 2 = 2 s forward, 4 s backward; transfer 1 s each way. Three micro-batches:
    # 2 * (2 + 4) + 2 + 2 * 6. Gradients: 10 bytes in a ring of two at 10 B/s take 1 s.
    assert length(two_servers(), (2,), (2,)) == pytest.approx(12 + 2 + 12 + 1)


def test_gpipe_pays_for_the_longest_of_both_directions():
    slow = two_servers(forward_s=np.array([2.0, 2, 4, 4]), backward_s=np.array([8.0, 8, 4, 4]))
    plain = length(slow, (2,), (2,))
    gpipe = length(two_servers(
        forward_s=slow.forward_s, backward_s=slow.backward_s, schedule="gpipe"
    ), (2,), (2,))  # fmt: skip
    # Slots: 2 + 8 and 4 + 4 seconds, against 4 + 8.
    assert gpipe - plain == pytest.approx(2 * (12 - 10))


def test_reduction_over_servers_is_hierarchical():
    problem = two_servers(stages=1)
    # 20 bytes: 2 * 1/2 / 10 inside a server, 2 * 1/2 / 1 over the network.
    assert length(problem, (), ()) == pytest.approx(3 * (2 + 4) + 20 * (0.1 + 1.0))


def test_an_early_stage_ends_late_and_hides_reductions_of_later_ones():
    problem = two_servers(weight_bytes=np.array([1.0, 1.0, 20.0, 20.0]))
    # Stage 1 reduces for 4 s, ends 4 + 1 s before stage 0 does, which reduces 0.2 s.
    assert length(problem, (2,), (2,)) == pytest.approx(26 + 0.2)


def test_transfers_inside_a_server_and_over_the_network():
    tables = pipeline_tables(two_servers())
    assert transfer_s(tables, 2, 0, 1, 2) == pytest.approx(0.1)
    assert transfer_s(tables, 2, 0, 2, 4) == pytest.approx(1.0)
    # All that device 0 sends goes over its server's link.
    assert transfer_s(tables, 2, 0, 1, 4) == pytest.approx(1.0)
    # Stages on two servers each share the links of both: a third and two thirds.
    six = two_servers(
        devices=dataclasses.replace(
            two_servers().devices,
            server_of=np.array([0, 0, 1, 1, 2, 2], np.int32),
            speed=np.ones(6),
        )
    )
    assert transfer_s(pipeline_tables(six), 2, 0, 3, 6) == pytest.approx(2 / 3)


def test_inference_has_no_backward_pass_and_no_reduction():
    problem = two_servers(training=False, backward_s=np.zeros(4))
    assert length(problem, (2,), (2,)) == pytest.approx(2 * 2 + 1 + 2 * 2)


def test_memory_counts_micro_batches_in_flight():
    tables = pipeline_tables(two_servers(recompute=False, micro_batches=8))
    times = stage_times(tables, np.array([[2]]), np.array([[2]]), np)
    # Two stages: two micro-batches in flight at the first, one at the second, shared by two.
    assert times.memory.tolist() == [[40 + 2 * 4 / 2, 40 + 4 / 2]]
    gpipe = pipeline_tables(two_servers(recompute=False, micro_batches=8, schedule="gpipe"))
    times = stage_times(gpipe, np.array([[2]]), np.array([[2]]), np)
    assert times.memory.tolist() == [[40 + 8 * 4 / 2, 40 + 8 * 4 / 2]]


def test_what_does_not_fit_is_infinitely_long():
    assert length(two_servers(state_bytes=np.full(4, 60.0)), (2,), (2,)) == np.inf
    assert length(two_servers(weight_bytes=np.array([1.0, 0, 0, 0])), (2,), (2,)) == np.inf
