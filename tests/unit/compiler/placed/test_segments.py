"""Segments of random placed steps."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepTrace
from mcm_compiler.placed.segments import cut_segments, segment_step
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.step_problems import box_of, random_box, random_placements, random_step


def _placed(seed: int) -> tuple[Box, StepProblem, StepTrace]:
    rng = np.random.default_rng(seed)
    box = random_box(rng)
    problem = random_step(rng, box, 60)
    simulator = StepSimulator(problem, box, StepConditions())
    return box, problem, simulator.trace(random_placements(rng, problem, 1)[0])


def _runs(problem: StepProblem) -> np.ndarray:
    return np.array([t not in (INPUT, VARIABLE) for t in problem.op_types])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("windows", [1, 5])
def test_a_segment_is_on_one_device_and_reads_from_earlier_ones(seed: int, windows: int) -> None:
    _, problem, trace = _placed(seed)
    runs = _runs(problem)
    found = cut_segments(problem, trace, runs, windows)
    assert ((found.of_op >= 0) == runs).all()
    assert (found.device[found.of_op[runs]] == trace.device_of[runs]).all()
    assert sorted(set(found.of_op[runs].tolist())) == list(range(found.count))
    for maker, reader in problem.edges.tolist():
        if runs[maker]:
            assert found.of_op[maker] <= found.of_op[reader]


def test_a_chain_on_one_device_is_one_segment_and_there_and_back_is_three() -> None:
    problem = _chain(6)
    one = np.zeros(6, np.int32)
    there = np.array([0, 0, 1, 1, 0, 0], np.int32)
    for placement, devices in ((one, [0]), (there, [0, 1, 0])):
        trace = _trace_of(placement)
        found = cut_segments(problem, trace, np.ones(6, np.bool_), 1)
        assert found.device.tolist() == devices


def test_segments_take_their_ops_and_their_dispatches() -> None:
    problem = _chain(6)
    trace = _trace_of(np.array([0, 0, 1, 1, 0, 0], np.int32))
    segments = cut_segments(problem, trace, np.ones(6, np.bool_), 1)
    box = _two_devices()
    step, placement = segment_step(problem, box, trace, segments, 0.25)
    results = StepSimulator(step, box, StepConditions()).evaluate(placement[None, :])
    # Six ops of 1 s, three dispatches, and two copies of 8 bytes at 16 bytes/s.
    assert results.seconds[0] == pytest.approx(6 + 3 * 0.25 + 2 * 0.5)


def _two_devices() -> Box:
    rate = np.full((2, 2), 16.0)
    np.fill_diagonal(rate, np.inf)
    return box_of(
        kinds=("cpu",),
        devices=("cpu:0", "cpu:1"),
        kind_of=np.zeros(2, np.int32),
        memory_bytes=np.full(2, 10**6),
        copy_bytes_per_s=rate,
        copy_latency_s=np.zeros((2, 2)),
    )


def _chain(ops: int) -> StepProblem:
    return StepProblem(
        names=tuple(f"op{n}" for n in range(ops)),
        op_types=("Relu",) * ops,
        time_s=np.ones((ops, 1)),
        value_names=tuple(f"v{n}" for n in range(ops)),
        value_bytes=np.full(ops, 8),
        producer=np.arange(ops, dtype=np.int32),
        view_of=np.full(ops, -1, np.int32),
        stays=np.zeros(ops, np.bool_),
        kept=np.zeros(ops, np.bool_),
        read_begin=np.maximum(np.arange(-1, ops), 0).astype(np.int64),
        reads=np.arange(ops - 1, dtype=np.int32),
        together=np.arange(ops, dtype=np.int32),
        allowed=np.ones((ops, 2), np.bool_),
    )


def _trace_of(placement: np.ndarray) -> StepTrace:
    box = _two_devices()
    return StepSimulator(_chain(len(placement)), box, StepConditions()).trace(placement)
