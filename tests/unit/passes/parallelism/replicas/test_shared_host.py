"""Pipelines side by side where all chips share one channel to the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.checking.check import check_folder
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.replication import PACKAGE_EVALUATOR, PACKAGE_PROBLEM, REPLICATION
from mcm_compiler.machines.machine import HOST, HOST_ROOT
from mcm_compiler.options import CompileOptions
from mcm_compiler.placements.side_by_side import side_by_side
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.sentences import shared_sentence
from mcm_compiler.report.terminal import report_text
from mcm_compiler.report.timeline_tracks import tracks_of
from mcm_hardware.families.ring.ring_target import mcm36, mcm36_shared
from mcm_passes.parallelism.replicas.replicas import on_share
from tests.oracles.shown_bounds import verify_bound

TO_SIMULATION = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"
ROOT_BYTES_PER_S = 64e9
PRODUCT_BYTES = 64 * 512 * 2


@pytest.fixture
def product(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 512])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _compiled(model: str | Path, target: str, **options: Any) -> Any:
    return run_passes(str(model), target, CompileOptions(passes=TO_SIMULATION, **options))[0]


def test_a_product_has_as_many_pipelines_as_the_host_feeds(product: Path) -> None:
    model = _compiled(product, "mcm36-shared")
    replication, simulation = REPLICATION.get(model), SIMULATION.get(model)
    assert replication.replicas == 9
    root_s = PRODUCT_BYTES / ROOT_BYTES_PER_S
    assert simulation.period_s / 9 == pytest.approx(root_s)
    assert REPLICATION.get(_compiled(product, "mcm36")).replicas == 36
    # More pipelines than the channel feeds answer no more often.
    crowded = SIMULATION.get(_compiled(product, "mcm36-shared", replicas=36))
    assert crowded.period_s / 36 == pytest.approx(root_s)
    few = SIMULATION.get(_compiled(product, "mcm36-shared", replicas=4))
    assert few.period_s / 4 > 2 * root_s


def test_every_number_of_pipelines_counts_the_channel_and_its_bound_is_shown(product: Path) -> None:
    passes = "simplify,fuse,annotate_cost,parallelize"
    model, _, _ = run_passes(str(product), "mcm36-shared", CompileOptions(passes=passes))
    problem, evaluator = PACKAGE_PROBLEM.get(model), PACKAGE_EVALUATOR.get(model)
    root_s = PRODUCT_BYTES / ROOT_BYTES_PER_S
    for one in REPLICATION.get(model).considered:
        assert one.bound is not None
        known = [s for s in (one.bound_s, one.analytic_s, one.simulated_s) if s is not None]
        assert min(known) >= root_s * (1 - 1e-12)
        assert verify_bound(on_share(problem, one.chips_each, one.replicas), one.bound)
    assert evaluator is not None
    found = evaluator.evaluate(np.zeros((1, problem.num_units), np.int32))
    assert found.shared_busy_s.tolist() == pytest.approx([root_s])
    assert found.periods_of(1).tolist() == found.period_s.tolist()
    assert found.periods_of(36).tolist() == pytest.approx([36 * root_s])


@pytest.mark.parametrize("model", ["zoo:ensemble-cnn{shape_only=true}", "zoo:bert-tiny"])
@pytest.mark.parametrize("count", [2, 6])
def test_copies_on_the_whole_machine_take_what_was_claimed_of_them(model: str, count: int) -> None:
    made = _compiled(model, "mcm36-shared", replicas=count, partitioner="dp")
    program, each = PROGRAM.get(made), 36 // count
    simulator = mcm36_shared().simulator()
    together = simulator.run(side_by_side(program, count, each, mcm36_shared().machine))
    alone = simulator.run(program)
    root_s = max(k.busy_s for k in alone.links if HOST_ROOT in (k.source, k.destination))
    assert together.period_s == pytest.approx(max(alone.period_s, count * root_s), rel=1e-9)
    assert SIMULATION.get(made).period_s == together.period_s
    assert len(together.chips) == count * len(alone.chips)
    assert len(SIMULATION.get(made).chips) == len(alone.chips)


def test_a_pipeline_is_not_held_up_by_inputs_of_its_last_chips() -> None:
    """Each chip reads the mask; the last ones do so many inferences after the first."""
    bert = "zoo:bert-base{shape_only=true}"
    options = {"replicas": 1, "partitioner": "dp", "level": 0}
    made = _compiled(bert, "mcm36-shared", **options)
    masks = [t for t in PROGRAM.get(made).transfers if t.source == HOST]
    assert len({t.destination for t in masks}) > 4
    free = SIMULATION.get(_compiled(bert, "mcm36", **options)).period_s
    assert SIMULATION.get(made).period_s == pytest.approx(free, rel=1e-6)


def test_reports_name_the_channel_and_the_folder_holds(product: Path, tmp_path: Path) -> None:
    result = compile_model(product, target="mcm36-shared", output=tmp_path / "out")
    report = build_report(result)
    bottleneck = report["bottleneck"]
    assert (bottleneck["kind"], bottleneck["source"], bottleneck["destination"]) == ("host", -3, -1)
    assert bottleneck["heaviest_tensors"] == [{"name": "x", "bytes": PRODUCT_BYTES}]
    assert bottleneck["text"].startswith(
        "the channel from the host that all chips share is busy 9.22 us of every 9.22 us "
        "(100.0 %), 100.0 % of its 576.0 KiB for 9 pipelines is 'x'; neither more pipelines nor "
        "more chips help, only smaller inputs or a faster channel; "
    )
    line = "from the host 100.0 % busy, to the host 100.0 % busy"
    assert shared_sentence(report["links"]) == line
    assert f"| shared channels | {line} |" in render_markdown(report)
    assert f"all chips    {line}" in report_text(report)
    assert result.throughput_per_s == pytest.approx(ROOT_BYTES_PER_S / PRODUCT_BYTES)
    checked = check_folder(tmp_path / "out")
    assert checked.holds
    apart = build_report(compile_model(product, target="mcm36"))
    assert shared_sentence(apart["links"]) is None
    assert "shared channels" not in render_markdown(apart)


def test_a_trace_has_all_pipelines_and_no_two_tensors_at_once_on_a_track(product: Path) -> None:
    made = _compiled(product, "mcm36-shared")
    program = side_by_side(PROGRAM.get(made), 9, 4, mcm36_shared().machine)
    tracks = tracks_of(mcm36_shared().simulator().timeline(program, 5))
    shared = [track for track in tracks if track.name.startswith("root of all chips -> host (")]
    assert len(shared) == 9
    assert {track.chip for track in tracks} - {None} == set(range(0, 36, 4))
    for track in tracks:
        assert (track.end_ns[:-1] <= track.begin_ns[1:]).all()


def test_a_package_without_the_key_is_what_it_was() -> None:
    spec = mcm36().spec
    assert spec.host_total_bytes_per_s == spec.stream_total_bytes_per_s == 0.0
    assert mcm36().machine.shared_channels == ()
    assert len(mcm36_shared().machine.shared_channels) == 2
