"""Measuring the kernels of compiled folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler import CompileOptions
from mcm_compiler.api import compile_model
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_batches
from mcm_compiler.measuring import kernel_times
from mcm_compiler.measuring.devices import MeasuringDevice, Profile
from mcm_compiler.measuring.executed_nodes import ExecutedNodes, seconds_of_kernels
from mcm_compiler.measuring.kernel_times import measure_folder
from mcm_compiler.measuring.measurement import device_of
from mcm_compiler.measuring.times_files import changed_machine, machine_facts, times_text
from mcm_hardware.measured_times.onnxruntime_device import OnnxRuntimeDevice

MODEL = "zoo:plain-cnn{image_size=16,stages=2,blocks=1,width=16}"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedFolder:
    folder = tmp_path_factory.mktemp("measured") / "out"
    options = CompileOptions(level=0, replicas=1, round=1, chips=2)
    compile_model(MODEL, "cpu-ring", options, output=folder)
    return open_folder(folder)


class Fake(MeasuringDevice):
    """Each node takes a microsecond; nothing is executed but by the reference."""

    name: ClassVar[str] = "fake"
    summary: ClassVar[str] = "for tests"

    def __init__(self, dies: int = 0, renamed: bool = False, zero: str = "-") -> None:
        self.dies, self.renamed, self.zero = dies, renamed, zero

    def facts(self) -> Mapping[str, str | int]:
        return {"cpu": "abacus", "threads": 1}

    def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
        if self.dies and model.name.endswith(f"{self.dies:02d}.onnx"):
            os.abort()
        nodes = [node.name for node in onnx.load(model, load_external_data=False).graph.node]
        name = "of another model " if self.renamed else ""
        seconds = {name + node: 0.0 if node.endswith(self.zero) else 1e-6 for node in nodes}
        return Profile(1e-6 * len(nodes), run_batches(model, inputs), 10, seconds)


def test_times_of_kernels_add_up_to_those_of_chips(opened: OpenedFolder) -> None:
    attempts: list[str] = []
    found = measure_folder(opened, OnnxRuntimeDevice(), record=attempts.append, passes=1)
    assert attempts == ["chip 0, session 1 of 1", "chip 1, session 1 of 1"]
    assert not found.diagnostics
    assert found.unmapped_share <= kernel_times.MOST_UNMAPPED
    total_s = sum(one.seconds for one in found.kernels)
    assert total_s == pytest.approx(sum(found.chip_s.values()), rel=0.05)
    text = times_text(found.kernels, "here")
    target = with_cost_model(
        load_target("cpu-ring"), "table{file=t.csv}", held_files({"t.csv": text.encode()})
    )
    costs = target.cost_model()
    measured_s = sum(
        costs.group_cost(nodes).measured_s
        for chip in opened.chips
        for nodes in kernel_times.kernels_of(chip.model.graph)
    )
    assert measured_s == pytest.approx(total_s, rel=1e-3)


def test_crash_costs_one_chip(opened: OpenedFolder) -> None:
    whole = measure_folder(opened, Fake())
    part = measure_folder(opened, Fake(dies=1))
    assert [one.code for one in part.diagnostics] == ["MCM-C012"] * 2
    assert "SIGABRT" in part.diagnostics[0].message
    assert part.diagnostics[0].at == "chip 1, session 1 of 2"
    assert set(part.chip_s) == {0}
    assert 0 < len(part.kernels) < len(whole.kernels)


def test_session_that_hangs_is_ended(opened: OpenedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Fake):
        def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
            while True:
                pass

    monkeypatch.setattr(kernel_times, "SESSION_LIMIT_S", 0.05)
    with pytest.raises(CompileError) as caught:
        measure_folder(opened, Slow(), passes=1)
    assert [one.code for one in caught.value.diagnostics] == ["MCM-C012"] * 2 + ["MCM-C014"]
    assert "ended after 0.05 s" in caught.value.diagnostics[0].message


def test_profile_of_another_model_is_refused(opened: OpenedFolder) -> None:
    with pytest.raises(CompileError) as caught:
        measure_folder(opened, Fake(renamed=True))
    assert caught.value.diagnostics[0].code == "MCM-C010"
    assert "100.0 % of the time of chip 0" in caught.value.diagnostics[0].message


def test_measured_zeros_get_no_row(opened: OpenedFolder) -> None:
    found = measure_folder(opened, Fake(zero="/MaxPool"))
    assert [one.code for one in found.diagnostics] == ["MCM-C011"]
    assert "/stage.1/pool/MaxPool" in found.diagnostics[0].message
    assert "/stage.1/pool/MaxPool" not in [one.kernel for one in found.kernels]


def test_target_without_a_device() -> None:
    assert isinstance(device_of(load_target("cpu-ring"), None), OnnxRuntimeDevice)
    with pytest.raises(CompileError) as caught:
        device_of(load_target("mcm4"), None)
    assert caught.value.diagnostics[0].code == "MCM-C009"
    assert "onnxruntime" in (caught.value.diagnostics[0].hint or "")


def test_changed_machine_names_what_changed() -> None:
    now = machine_facts(Fake())
    assert changed_machine(now, {**now, "name": "other"}, "a.machine.toml") is None
    found = changed_machine({**now, "cpu": "slide rule"}, now, "a.machine.toml")
    assert found is not None
    assert (found.code, found.at) == ("MCM-C013", "a.machine.toml")
    assert "cpu: 'slide rule' then, 'abacus' now" in found.message
    assert "threads" not in found.message


def _graph() -> ir.Graph:
    """Two convolutions with a sum behind them, each an op."""
    text = """<ir_version: 10, opset_import: ["": 17]>
    g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1,8,4,4] z) {
        [first] a = Conv(x, w)
        [act] b = Relu(a)
        [second] c = Conv(b, w)
        [sum] z = Add(c, b)
    }"""
    return ir.from_proto(onnx.parser.parse_model(text)).graph


def test_fused_nodes_and_layout_changes_find_their_ops() -> None:
    text = """<ir_version: 10, opset_import: ["": 17]>
    g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1,8,4,4] z) {
        [in] x_blocked = ReorderInput(x)
        [b_blocked] b_nchwc = Conv(x_blocked, w)
        [fused] anything = Conv(b_nchwc, w, b_nchwc)
        [out] z = ReorderOutput(anything)
    }"""
    nodes = ExecutedNodes(_graph(), onnx.parser.parse_model(text).graph)
    found = {
        name: {op.name for op in nodes.ops_of(name)} for name in ("in", "b_blocked", "fused", "out")
    }
    assert found == {
        "in": {"first", "act"},
        "b_blocked": {"first", "act"},
        "fused": {"second", "sum"},
        "out": {"second", "sum"},
    }
    times: dict[str, float] = dict.fromkeys([*found, "nowhere"], 1.0)
    kernels, unmapped_s = seconds_of_kernels(
        nodes, times, lambda ops: {op.name or "": 1 / len(ops) for op in ops}
    )
    assert unmapped_s == 1.0
    assert kernels == pytest.approx({"first": 1.0, "act": 1.0, "second": 1.0, "sum": 1.0})


def test_inputs_of_the_user_are_run(opened: OpenedFolder) -> None:
    (image,) = opened.manifest.inputs
    feeds = [{image.name: np.zeros(image.shape or (), np.float32)}]
    assert measure_folder(opened, Fake(), feeds).kernels
