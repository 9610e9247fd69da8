"""Folders as rings of processes: element types, what buffers cannot hold, and what goes wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.entry import run_pipelined as entry
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.ring.plan import RingFailure, RingPlan, RingResult
from mcm_compiler.execution.runner import same_bits
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions

EXPORTS = Path(__file__).parents[1] / "data" / "exports"
PASSES = DEFAULT_PIPELINE.removesuffix(",verify")


def run(name: str, folder: Path) -> entry.PipelinedRun:
    options = CompileOptions(level=0, replicas=1, round=1, passes=PASSES)
    compile_model(EXPORTS / f"{name}.onnx", "mcm4", options, output=folder)
    return entry.run_pipelined(folder, None, inferences=1)


@pytest.mark.parametrize("name", ["dynamo_bfloat16_opset18", "torch_if_opset13"])
def test_outputs_are_those_of_the_chain(name: str, tmp_path: Path) -> None:
    data = run(name, tmp_path / "out").data
    assert data["outputs_equal"]
    assert len(data["chips"]) > 1


@pytest.mark.parametrize(
    ("name", "tensor", "why"),
    [
        ("text_optional", "maybe", "Optional"),
        ("text_strings", "first", "STRING"),
        ("jax_scan", "loop_out_0", "one size"),
    ],
)
def test_what_buffers_cannot_hold_is_named(
    name: str, tensor: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(CompileError, match=why) as refused:
        run(name, tmp_path / "out")
    (found,) = refused.value.diagnostics
    assert (found.code, found.at) == ("MCM-V080", f"tensor '{tensor}'")


@pytest.mark.parametrize(
    ("failure", "code", "message", "at"),
    [
        (RingFailure(3, "SIGKILL"), "MCM-V081", "its process ended: SIGKILL", "chip 3"),
        (RingFailure(1, "round 7", hangs=True), "MCM-V081", "no progress for", "chip 1"),
        (RingFailure(None, "SIGKILL"), "MCM-V081", "SIGKILL", "the process of the host"),
        (None, "MCM-V082", "2 rounds of", None),
    ],
)
def test_a_ring_that_fails_says_where(
    failure: RingFailure | None,
    code: str,
    message: str,
    at: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = entry.run_ring

    def run_ring(plan: RingPlan) -> RingResult | RingFailure:
        result = failure or ring(plan)
        return replace(result, differing=2) if isinstance(result, RingResult) else result

    monkeypatch.setattr(entry, "run_ring", run_ring)
    with pytest.raises(CompileError, match=message) as refused:
        run("torch_if_opset13", tmp_path / "out")
    (found,) = refused.value.diagnostics
    assert found.code == code
    assert at is None or found.at == at


def test_workers_of_a_scheduler_run_chips(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    folder = tmp_path / "out"
    expected = run("torch_if_opset13", folder)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        found = entry.run_pipelined(folder, None, inferences=1, scheduler=cluster.scheduler_address)
    assert found.data["outputs_equal"]
    assert found.data["cores"] == 2
    assert {row["core"] for row in found.data["chips"]} == {0, 1}
    assert all(row["busy_s"] > 0 for row in found.data["chips"])
    assert same_bits(dict(found.outputs), dict(expected.outputs))
