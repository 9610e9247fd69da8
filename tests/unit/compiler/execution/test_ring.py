"""A ring of processes: equal outputs, states by sequence, and an end to whatever dies or hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from mcm_compiler.execution.ring import host
from mcm_compiler.execution.ring.plan import (
    HOST,
    RingChip,
    RingFailure,
    RingPlan,
    RingResult,
    RingState,
    RingTensor,
)

FLOAT = int(onnx.TensorProto.FLOAT)
TWICE = "first (float[4] x) => (float[4] y, float[4] w) { y = Add (x, x)  w = Mul (x, x) }"
SUM = "second (float[4] y, float[4] w, float[4] x) => (float[4] z) { z = Sum (y, w, x) }"
PATIENCE_S = 1.0
"""Chips of these tests open their models in a tenth of it on a machine with other work."""

COUNT = """counter (float[4] x, float[2] past) => (float[4] z, float[3] present) {
    last = Constant <value = float[1] {1.0}> ()
    next = ReduceSum <keepdims = 1> (x)
    present = Concat <axis = 0> (past, next)
    total = ReduceSum <keepdims = 1> (past)
    z = Add (x, total)
}"""


def chip(folder: Path, number: int, text: str, states: tuple[RingState, ...] = ()) -> RingChip:
    path = folder / f"{number}.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {text}'), path)
    return RingChip(number, path, states)


def tensor(name: str, source: int, *readers: int) -> RingTensor:
    return RingTensor(name, FLOAT, (4,), source, readers)


def x_of(row: int) -> np.ndarray:
    return np.arange(4, dtype=np.float32) + row


@pytest.fixture
def plan(tmp_path: Path) -> RingPlan:
    return RingPlan(
        (chip(tmp_path, 5, TWICE), chip(tmp_path, 7, SUM)),
        (tensor("x", HOST, 0, 1), tensor("y", 0, 1, HOST), tensor("w", 0, 1), tensor("z", 1, HOST)),
        tuple({"x": x_of(row)} for row in range(3)),
        tuple(sorted(os.sched_getaffinity(0))),
        in_flight=3,
        block=20,
        blocks=2,
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_outputs_are_those_of_each_round(plan: RingPlan, replicas: int) -> None:
    result = host.run_ring(replace(plan, replicas=replicas, chips_each=8))
    assert isinstance(result, RingResult)
    assert result.differing == 0
    for row, outputs in enumerate(result.outputs):
        x = x_of(row)
        assert outputs.keys() == {"y", "z"}
        np.testing.assert_array_equal(outputs["y"], x + x)
        np.testing.assert_array_equal(outputs["z"], x + x + x * x + x)
    assert result.cpu_s.shape == (replicas, 2, plan.total)
    assert np.all(np.diff(result.cpu_s) > 0)
    assert np.all(result.busy_s > 0)
    assert np.all(np.diff(result.left_s) >= 0)


def test_states_stay_on_their_chip_for_each_sequence(tmp_path: Path) -> None:
    first = np.array([10, 20], np.float32)
    state = RingState("past", "present", FLOAT, (3,), first)
    rounds = tuple({"x": x_of(row)} for row in range(3))
    plan = RingPlan(
        (chip(tmp_path, 0, COUNT, (state,)),),
        (tensor("x", HOST, 0), tensor("z", 0, HOST)),
        rounds,
        tuple(sorted(os.sched_getaffinity(0))),
        in_flight=2,
        sequences=2,
        block=12,
        blocks=1,
    )
    result = host.run_ring(plan)
    assert isinstance(result, RingResult)
    assert result.differing == 0
    past = present = first
    for row, outputs in enumerate(result.outputs):
        np.testing.assert_array_equal(outputs["z"], x_of(row) + past.sum())
        present = np.append(past, x_of(row).sum())
        past = present[1:]
    np.testing.assert_array_equal(result.outputs[-1]["present"], present)


def test_a_model_that_does_not_run_is_named_with_its_reason(plan: RingPlan, tmp_path: Path) -> None:
    (tmp_path / "7.onnx").write_bytes(b"no model")
    result = host.run_ring(plan)
    assert isinstance(result, RingFailure)
    assert result.chip == 7
    assert "onnxruntime" in result.why


def test_rounds_that_differ_on_equal_inputs_are_counted(plan: RingPlan, tmp_path: Path) -> None:
    text = SUM.replace("Sum (y, w, x)", "RandomUniformLike (x)")
    result = host.run_ring(replace(plan, chips=(plan.chips[0], chip(tmp_path, 7, text))))
    assert isinstance(result, RingResult)
    assert result.differing > 0


def kill_own() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_host() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.forks
@pytest.mark.parametrize(
    ("act", "expected", "patience_s"),
    [
        (kill_own, RingFailure(7, "SIGKILL"), 30.0),
        (kill_host, RingFailure(None, "SIGKILL"), 30.0),
        (stop, RingFailure(7, "opening its model", hangs=True), PATIENCE_S),
    ],
)
def test_nothing_is_left_of_a_ring_of_which_one_dies_or_hangs(
    plan: RingPlan,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    act: Callable[[], None],
    expected: RingFailure,
    patience_s: float,
) -> None:
    serve, before = host.serve_chip, set(os.listdir("/dev/shm"))

    def serve_chip(
        plan: RingPlan, pipeline: host.SharedPipeline, replica: int, index: int, *more: object
    ):
        (tmp_path / f"{os.getpid()}.pid").touch()
        if index == 1:
            while not pipeline.ready[0]:
                time.sleep(0.01)
            act()
        serve(plan, pipeline, replica, index, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(host, "serve_chip", serve_chip)
    assert host.run_ring(replace(plan, patience_s=patience_s)) == expected
    processes = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert len(processes) == 2
    end_s = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{one}") and not ended(one) for one in processes):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    assert set(os.listdir("/dev/shm")) <= before


def ended(process: int) -> bool:
    """Whether only whoever started it has yet to take note."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.forks
def test_a_chip_that_hangs_amid_rounds_is_named(
    plan: RingPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = host.SharedPipeline.note_made

    def note_made(pipeline: host.SharedPipeline, place: int, i: int) -> None:
        if (place, i) == (0, 11):
            time.sleep(60)
        note(pipeline, place, i)

    monkeypatch.setattr(host.SharedPipeline, "note_made", note_made)
    found = host.run_ring(replace(plan, patience_s=PATIENCE_S))
    assert isinstance(found, RingFailure)
    assert (found.chip, found.hangs) == (5, True)
