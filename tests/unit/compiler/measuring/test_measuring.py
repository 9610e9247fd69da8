"""Measuring the kernels of compiled folders."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_batches
from mcm_compiler.measuring import kernel_times
from mcm_compiler.measuring.attempts import Attempts
from mcm_compiler.measuring.calibrated_target import calibrated_target
from mcm_compiler.measuring.devices import DEVICES, MeasuringDevice, Profile
from mcm_compiler.measuring.executed_nodes import ExecutedNodes, seconds_of_kernels
from mcm_compiler.measuring.kernel_times import measure_folder
from mcm_compiler.measuring.lone_kernels import KernelBudget
from mcm_compiler.measuring.measurement import device_of
from mcm_compiler.measuring.times_files import (
    changed_machine,
    machine_facts,
    machine_file,
    machine_notes,
    machine_text,
    times_text,
)
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.processes import bounded_child
from mcm_compiler.processes.bounded_child import ChildDiedError
from mcm_hardware.measured_times.onnxruntime_device import OnnxRuntimeDevice, computing_s
from tools.figure_mutations import refusal, rehash

MODEL = "zoo:plain-cnn{image_size=16,stages=2,blocks=1,width=16}"


DEVICE_FILE = """
from onnx import load
from mcm_compiler import register
from mcm_compiler.execution.runner import run_batches
from mcm_compiler.measuring.devices import MeasuringDevice, Profile

@register("device")
class Acme(MeasuringDevice):
    name = "acme-file"
    summary = "for tests"

    def facts(self):
        return {}

    def profile(self, model, inputs):
        nodes = load(model, load_external_data=False).graph.node
        return Profile(1e-3, run_batches(model, inputs), 1, {node.name: 5e-6 for node in nodes})
"""


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
    assert [one.code for one in part.diagnostics] == ["MCM-C012"] * 3
    assert "SIGABRT" in part.diagnostics[0].message
    assert part.diagnostics[0].at == "chip 1, session 1 of 3"
    assert set(part.chip_s) == {0}
    assert 0 < len(part.kernels) < len(whole.kernels)


class Unsteady(Fake):
    """The first session is as long as that of `Fake`, the next ones twice and three times."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
        (self.folder / str(os.getpid())).touch()
        found, times = super().profile(model, inputs), len(list(self.folder.iterdir()))
        return replace(found, node_s={name: s * times for name, s in found.node_s.items()})


def test_spread_is_what_two_measurements_may_differ_by(tmp_path: Path) -> None:
    options = CompileOptions(level=0, replicas=1, round=1, chips=1)
    compile_model(MODEL, "cpu-ring", options, output=tmp_path / "out")
    (sessions := tmp_path / "sessions").mkdir()
    for one in measure_folder(open_folder(tmp_path / "out"), Unsteady(sessions)).kernels:
        assert one.seconds / 2e-6 == pytest.approx(round(one.seconds / 2e-6))
        assert one.spread == pytest.approx(4 / 3 / (2 * math.sqrt(3)))


def test_pauses_of_long_nodes_do_not_shorten_short_ones() -> None:
    found = computing_s({"short": 500.0, "long": 9000.0, "other": 6000.0}, 8e-3)
    assert found == pytest.approx({"short": 0.5e-3, "long": 4.5e-3, "other": 3e-3})
    all_short = computing_s({"a": 500.0, "b": 1000.0}, 1.2e-3)
    assert all_short == pytest.approx({"a": 0.4e-3, "b": 0.8e-3})


def test_measurement_goes_on_after_a_crash(
    opened: OpenedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = measure_folder(opened, Fake())

    def ended_by_the_second_chip(attempt: str) -> None:
        if attempt.startswith("chip 1, session 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_folder(opened, Fake(), None, ended_by_the_second_chip, kept=tmp_path / "sessions")
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.iterdir())) == 4
    sessions: list[str] = []
    profiled = kernel_times._profile  # pyright: ignore[reportPrivateUsage]

    def counted(device: MeasuringDevice, model: Path, feeds: list[dict[str, Any]]) -> Profile:
        sessions.append(model.name)
        return profiled(device, model, feeds)

    monkeypatch.setattr(kernel_times, "_profile", counted)
    assert measure_folder(opened, Fake(), kept=tmp_path / "sessions") == whole
    assert sessions == ["chip_01.onnx"] * 2
    assert not list(tmp_path.iterdir())


def test_session_that_ended_a_measurement_is_not_tried_again(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path / "sessions", "of a model")
    profile = Profile(1.0, [{"y": np.ones(2, np.float32)}], 1, {"n": 0.5}, b"model")

    def dies() -> Profile:
        (file,) = tmp_path.glob("sessions-*/*")
        assert not file.stat().st_size  # recorded before it starts
        raise ChildDiedError("SIGSEGV")

    with pytest.raises(ChildDiedError, match="SIGSEGV"):
        attempts.profile("chip 0", dies)
    attempts.profile("chip 0", lambda: profile)
    again = attempts.profile("chip 0", dies)
    np.testing.assert_array_equal(again.outputs[0]["y"], profile.outputs[0]["y"])
    assert (again.seconds, again.node_s, again.executed) == (1.0, {"n": 0.5}, b"model")
    (file,) = tmp_path.glob("sessions-*/*")
    file.write_bytes(b"")  # as a crash of this process leaves it
    with pytest.raises(ChildDiedError, match="an earlier measurement ended with it"):
        attempts.profile("chip 0", lambda: profile)
    attempts.done()
    assert not list(tmp_path.iterdir())


class Endless(Fake):
    def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
        while True:
            pass


@pytest.mark.parametrize("served", [False, True])
def test_session_that_hangs_is_ended(
    opened: OpenedFolder, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    if served:
        monkeypatch.setattr(bounded_child, "may_fork", lambda: False)
    monkeypatch.setattr(kernel_times, "SESSION_LIMIT_S", 0.05)
    with pytest.raises(CompileError) as caught:
        measure_folder(opened, Endless(), passes=1)
    assert [one.code for one in caught.value.diagnostics] == ["MCM-C012"] * 2 + ["MCM-C014"]
    assert "ended after 0.05 s" in caught.value.diagnostics[0].message


def test_device_of_a_file_reaches_a_process_that_forks(
    opened: OpenedFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bounded_child, "may_fork", lambda: False)
    file = tmp_path / "acme_device.py"
    file.write_text(DEVICE_FILE)
    load_plugin(file)
    found = measure_folder(opened, DEVICES.get("acme-file")(), passes=1)
    assert {one.seconds for one in found.kernels} >= {5e-6}


def test_device_that_cannot_be_sent_is_named(
    opened: OpenedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(Fake):
        pass

    monkeypatch.setattr(bounded_child, "may_fork", lambda: False)
    monkeypatch.setitem(sys.modules, "jaxlib", sys)
    with pytest.raises(CompileError) as caught:
        measure_folder(opened, Local(), passes=1)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-C021", __file__)
    assert "'fake' has to be measured in another process, because jaxlib" in found.message


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


class Unprofiled(Fake):
    """A device without a profiler, which one op crashes."""

    def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
        proto = onnx.load(model)
        kinds = [node.op_type for node in proto.graph.node]
        if kinds == ["MaxPool"]:
            os.abort()
        seconds = 1e-6 * len(kinds) * (2.0 if model.name == "kernel.onnx" else 1.0)
        return Profile(seconds, run_batches(model, inputs), 10)


def test_kernels_alone_are_scaled_and_a_crash_costs_one_row(opened: OpenedFolder) -> None:
    attempts: list[str] = []
    found = measure_folder(opened, Unprofiled(), record=attempts.append)
    assert [one.code for one in found.diagnostics] == ["MCM-C016"] * 2
    assert "1 more crashed or were refused, such as '/stage.1/pool/MaxPool'" in " ".join(
        one.message for one in found.diagnostics
    )
    assert "chip 0, kernel '/stage.0/block.0/Relu' alone" in attempts
    assert {one.how for one in found.kernels} == {"alone"}
    assert "/stage.1/pool/MaxPool" not in [one.kernel for one in found.kernels]
    total_s = sum(one.seconds for one in found.kernels)
    assert total_s == pytest.approx(sum(found.chip_s.values()))


def test_budget_is_spent_on_the_longest_kernels_and_holds_for_those_alike(
    opened: OpenedFolder,
) -> None:
    attempts: list[str] = []
    budget = KernelBudget(1, "here")
    found = measure_folder(opened, Unprofiled(), record=attempts.append, budget=budget)
    alone = [attempt for attempt in attempts if attempt.endswith("alone")]
    assert len(alone) == len(opened.chips)
    costs = opened.target.cost_model()
    for chip, attempt in zip(opened.chips, alone, strict=True):
        kernels = {
            kernel_times.kernel_name(nodes): nodes
            for nodes in kernel_times.kernels_of(chip.model.graph)
        }
        seconds = {name: costs.group_cost(nodes).seconds for name, nodes in kernels.items()}
        assert max(seconds, key=lambda name: seconds[name]) in attempt
        rows = [one.seconds for one in found.kernels if one.kernel in kernels]
        assert 0.0 < sum(rows) < found.chip_s[chip.chip]


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


def measured_files(opened: OpenedFolder, tmp_path: Path, **facts: str) -> Path:
    """A table of times three times as long as the target's own, and its machine."""
    table = tmp_path / "t.times.csv"
    own = load_target("cpu-ring").cost_model()
    kernels = [
        kernel_times.KernelTime(
            kernel_times.kernel_name(nodes), 3.0 * own.group_cost(nodes).seconds, 0.01, 10
        )
        for chip in opened.chips
        for nodes in kernel_times.kernels_of(chip.model.graph)
    ]
    table.write_text(times_text(kernels, "here"))
    machine = {**machine_facts(OnnxRuntimeDevice()), **facts}
    machine_file(table).write_text(machine_text(machine, {"name": "m"}, 5e9))
    return table


def test_target_is_calibrated_by_measured_times(opened: OpenedFolder, tmp_path: Path) -> None:
    table = measured_files(opened, tmp_path)
    found = calibrated_target([(opened.path, table)])
    assert not found.diagnostics
    assert found.fit.before == pytest.approx(2 / 3, rel=1e-3)
    assert found.fit.after < 1e-3
    before, after = found.numbers["chip.mac_array.clock_mhz"]
    assert after == pytest.approx(before / 3, rel=1e-3)
    assert found.numbers["link.bandwidth_gb_per_s"] == (8.0, 5.0)
    target = target_from_text("mine", found.text)
    (nodes, *_) = kernel_times.kernels_of(opened.chips[0].model.graph)
    times = [t.cost_model().group_cost(nodes).seconds for t in (target, load_target("cpu-ring"))]
    assert times[0] == pytest.approx(3 * times[1], rel=1e-3)


def test_models_of_one_machine_are_learned_from(opened: OpenedFolder, tmp_path: Path) -> None:
    table = measured_files(opened, tmp_path)
    learned = calibrated_target([(opened.path, table)] * 5).fit.learned
    assert learned is not None
    assert max(learned.means.values()) < 0.01
    assert not learned.is_better
    other = tmp_path / "other"
    other.mkdir()
    two = measured_files(opened, other, name="there")
    assert calibrated_target([(opened.path, table)] * 5 + [(opened.path, two)]).fit.learned is None


def test_calibration_names_what_changed_on_the_machine(
    opened: OpenedFolder, tmp_path: Path
) -> None:
    table = measured_files(opened, tmp_path, runtime="onnxruntime 0.1")
    (note,) = calibrated_target([(opened.path, table)]).diagnostics
    assert (note.code, note.at) == ("MCM-C013", str(tmp_path / "t.machine.toml"))
    assert "runtime: 'onnxruntime 0.1' then" in note.message


def test_compile_names_what_changed_on_the_machine(opened: OpenedFolder, tmp_path: Path) -> None:
    table = measured_files(opened, tmp_path, cpu="slide rule")
    (note,) = machine_notes(f"table{{file={table}}}")
    assert (note.code, note.at) == ("MCM-C013", str(tmp_path / "t.machine.toml"))
    assert "cpu: 'slide rule' then" in note.message
    measured_files(opened, tmp_path)
    assert machine_notes(f"table{{file={table}}}") == []
    machine_file(table).unlink()
    assert machine_notes(f"table{{file={table}}}") == []
    assert machine_notes("roofline") == []


def test_folders_of_different_targets_are_not_calibrated_together(
    opened: OpenedFolder, tmp_path: Path
) -> None:
    options = CompileOptions(level=0, replicas=1, round=1)
    compile_model(MODEL, "mcm4", options, output=tmp_path / "other")
    table = measured_files(opened, tmp_path)
    with pytest.raises(CompileError) as caught:
        calibrated_target([(opened.path, table), (tmp_path / "other", table)])
    assert caught.value.diagnostics[0].code == "MCM-C015"


def test_few_kernels_calibrate_no_target(opened: OpenedFolder, tmp_path: Path) -> None:
    table = measured_files(opened, tmp_path)
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(CompileError) as caught:
        calibrated_target([(opened.path, table)])
    assert caught.value.diagnostics[0].code == "MCM-C014"


def test_report_says_how_far_the_period_may_be_off(opened: OpenedFolder, tmp_path: Path) -> None:
    table = measured_files(opened, tmp_path)
    few = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*few[:4]]))
    options = CompileOptions(
        level=0, replicas=1, round=1, chips=2, cost_model=f"table{{file={table}}}"
    )
    folder = tmp_path / "out"
    compile_model(MODEL, "cpu-ring", options, output=folder)
    coverage = open_folder(folder).report["chosen_cost_model"]["coverage"]
    assert 0.0 < coverage["measured_share"] < 1.0
    assert 0.0 < coverage["period_deviation"] <= 0.01 + 1e-9


def test_smaller_errors_than_those_of_the_certificate_are_found(tmp_path: Path) -> None:
    table = tmp_path / "times.csv"
    table.write_text("kernel,seconds,spread\n/stage.0/block.0/Relu,4e-5,0.02\n")
    for name, deviation in (("out", 0.05), ("closer", 0.001)):
        costs = f"table{{file={table},factor=2,deviation={deviation}}}"
        options = CompileOptions(level=0, replicas=1, chips=2, cost_model=costs)
        compile_model(MODEL, "cpu-ring", options, output=tmp_path / name)
    folder = tmp_path / "out"
    certificate = open_folder(folder).certificate
    assert certificate is not None
    assert certificate.problem.deviation_s is not None
    row = certificate.problem.names.index("/stage.0/block.0/Relu")
    assert certificate.problem.deviation_s[row] == pytest.approx(0.02 * 4e-5)
    assert refusal(folder, runs=False) is None
    for name in ("target.toml", "report.json", "report.md", "manifest.json"):
        shutil.copy(tmp_path / "closer" / name, folder)
    rehash(folder)
    assert refusal(folder, runs=False) == "MCM-V070"


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


def test_nodes_of_another_layout_are_known_by_their_names() -> None:
    text = """<ir_version: 10, opset_import: ["": 17]>
    g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1,8,4,4] z) {
        [first] a = Conv(x, w)
        [sum] b = Add(a, x)
        [act] c = Relu(b)
        [pool] d = MaxPool <kernel_shape: ints = [1, 1]> (c)
        [last] z = Conv(d, w)
    }"""
    executed = """<ir_version: 10, opset_import: ["": 17]>
    g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1,8,4,4] z) {
        [in] token_0 = ReorderInput(x)
        [a_nchwc] token_1 = Conv(token_0, w, token_0)
        [pool] token_2 = MaxPool(token_1)
        [z_nchwc] token_3 = Conv(token_2, w)
        [out] z = ReorderOutput(token_3)
    }"""
    graph = ir.from_proto(onnx.parser.parse_model(text)).graph
    nodes = ExecutedNodes(graph, onnx.parser.parse_model(executed).graph)
    found = {
        name: [op.name for op in nodes.ops_of(name)]
        for name in ("in", "a_nchwc", "pool", "z_nchwc", "out")
    }
    assert found == {
        "in": ["first"],
        "a_nchwc": ["first", "sum", "act"],
        "pool": ["pool"],
        "z_nchwc": ["last"],
        "out": ["last"],
    }


def test_inputs_of_the_user_are_run(opened: OpenedFolder) -> None:
    (image,) = opened.manifest.inputs
    feeds = [{image.name: np.zeros(image.shape or (), np.float32)}]
    assert measure_folder(opened, Fake(), feeds).kernels
