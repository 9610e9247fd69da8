"""Pipelines side by side: how many, what they are certified for, and what a folder says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcm_compiler.api import CompileResult, compile_model, run_passes
from mcm_compiler.artifact import layout
from mcm_compiler.checking.check import check_folder
from mcm_compiler.contracts.partition import PARTITION
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.report_data import build_report

MODEL = "zoo:mobilenet-v2{image_size=64,shape_only=true}"
SEARCHED = "simplify,fuse,annotate_cost,parallelize,partition"


def _compiled(**options: Any) -> CompileResult:
    return compile_model(MODEL, "mcm36", CompileOptions(level=1, **options))


def test_a_small_model_runs_several_times_side_by_side() -> None:
    several, single = build_report(_compiled()), build_report(_compiled(replicas=1))
    found = several["replication"]
    assert found["replicas"] > 1
    assert found["replicas"] * found["chips_each"] <= 36
    assert several["throughput_per_s"] >= single["throughput_per_s"]
    assert several["chips_used"] <= 36
    assert several["period_s"] == found["pipeline_period_s"] / found["replicas"]


def test_the_bound_holds_for_every_number_of_pipelines() -> None:
    model, _, _ = run_passes(MODEL, "mcm36", CompileOptions(passes=SEARCHED, level=1))
    replication, partition = REPLICATION.get(model), PARTITION.get(model)
    bound = replication.bound(partition.bound).seconds
    assert bound <= partition.period_s / replication.replicas * (1 + 1e-9)
    considered = replication.considered
    known = [one.analytic_s for one in considered if one.analytic_s is not None]
    assert known
    assert all(bound <= seconds * (1 + 1e-9) for seconds in known)
    assert partition.period_s / replication.replicas <= 1.1 * min(known)
    for one in considered:
        assert one.bound is not None
        assert one.bound.proof
        if one.analytic_s is None:
            assert one.bound_s > 1.01 * min(known)
        else:
            assert one.bound_s <= one.analytic_s * (1 + 1e-9)


def test_every_share_of_the_chips_is_looked_at_also_if_there_are_fewer_ops() -> None:
    """What is not looked at would be missing from the bound, too."""
    tiny = "zoo:plain-cnn{stages=1,blocks=4,shape_only=true}"
    model, _, _ = run_passes(tiny, "mcm36", CompileOptions(passes=SEARCHED, level=0))
    assert PARTITION.get(model).chip_of.size < 12
    shares = {one.chips_each for one in REPLICATION.get(model).considered}
    assert shares == {36 // count for count in range(1, 37)}


def test_a_number_that_is_asked_for_is_taken() -> None:
    report = build_report(_compiled(replicas=5))
    assert report["replication"]["replicas"] == 5
    assert report["replication"]["chips_each"] == 7
    assert report["options"]["replicas"] == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"replicas": 37}, "there are 36 chips"),
        ({"replicas": 3, "chips": 2}, "there are 2 chips"),
        ({"replicas": 2, "forbidden_chips": (3,)}, "some chips are left out"),
        ({"replicas": 2, "pins": (("*Gemm*", 18),)}, "'*Gemm*' is pinned to a place beyond"),
    ],
)
def test_mcm_p018_pipelines_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CompileError) as caught:
        run_passes(MODEL, "mcm36", CompileOptions(passes=SEARCHED, level=0, **options))
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-P018"
    assert words in fault.message


def test_constraints_on_single_chips_mean_one_pipeline() -> None:
    options = CompileOptions(passes=SEARCHED, level=0, pins=(("*Gemm*", 1),))
    model, _, _ = run_passes(MODEL, "mcm36", options)
    assert REPLICATION.get(model).replicas == 1


def test_a_folder_with_more_pipelines_than_chips_does_not_hold(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    compile_model("zoo:mobilenet-v2{image_size=32}", "mcm4", CompileOptions(level=0), output=folder)
    assert check_folder(folder, seeds=range(1)).holds
    path = folder / layout.MANIFEST
    manifest = json.loads(path.read_text())
    assert manifest["replicas"] > 1
    assert [role["chip"] for role in manifest["placement"]] == list(range(4))
    manifest["replicas"] = 100
    path.write_text(json.dumps(manifest))
    with pytest.raises(CompileError, match=r"MCM-A005.*placement"):
        check_folder(folder, seeds=range(1))
    del manifest["placement"]  # as folders of the first releases
    path.write_text(json.dumps(manifest))
    faults = check_folder(folder, seeds=range(1)).diagnostics
    assert "MCM-V050" in {fault.code for fault in faults}
