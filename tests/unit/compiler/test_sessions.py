"""Functions of the verbs in a session or a notebook: typed results, their verdicts, and tables."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mcm_compiler
from mcm_compiler.measuring.kernel_times import KernelTime, MeasuredFolder
from mcm_compiler.measuring.measurement import Measurement
from mcm_compiler.options import CompileOptions
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.text.headline import NOTEBOOK_WIDTH, Headline, Shown
from mcm_compiler.text.styled import plain_lines

CNN = "zoo:plain-cnn{image_size=16,stages=1,blocks=1,width=16}"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> mcm_compiler.CompileResult:
    out = tmp_path_factory.mktemp("sessions") / "out"
    return mcm_compiler.compile_model(CNN, "mcm4", CompileOptions(level=0), output=out)


def _is_shown(result: Shown) -> str:
    """The one line; the HTML has the text of the terminal."""
    line = repr(result)
    assert "\n" not in line
    page: str = result._repr_html_()
    text = html.unescape(re.sub(r"</?(?:pre|span)(?: style=\"[^\"<>]*\")?>", "", page))
    shown = plain_lines(result.headline.view(NOTEBOOK_WIDTH), NOTEBOOK_WIDTH)
    assert [one.rstrip() for one in text.splitlines()] == shown
    return line


def _table(rows: Any) -> pd.DataFrame:
    assert all(dataclasses.is_dataclass(row) for row in rows)
    frame = pd.DataFrame(rows)
    pd.testing.assert_frame_equal(frame, pd.DataFrame([dataclasses.asdict(row) for row in rows]))
    return frame


def test_a_compile(compiled: mcm_compiler.CompileResult) -> None:
    line = _is_shown(compiled)
    assert line.startswith("<CompileResult ✓ ")
    assert " → mcm4: " in line
    assert "inferences/s" in line
    assert "bit-identical" in line
    kernels = _table(compiled.kernels)
    assert kernels["seconds"].sum() == pytest.approx(
        sum(k.duration_s for c in compiled.program.chips for k in c.kernels)  # type: ignore[union-attr]
    )
    assert not _table(compiled.simulation.chips).empty  # type: ignore[union-attr]


def test_a_compile_without_a_folder_has_its_report() -> None:
    found = mcm_compiler.compile_model(CNN, "mcm4", CompileOptions(level=0, passes="simplify"))
    assert found.report is not None
    assert "not simulated" in _is_shown(found)
    assert found.kernels == []


def test_a_check_a_difference_and_a_run(compiled: mcm_compiler.CompileResult) -> None:
    assert compiled.folder is not None
    folder = str(compiled.folder)
    checked = mcm_compiler.check(folder, seeds=1)
    assert checked.holds
    assert re.search(r"✓ .*out'?: \d+ steps hold", _is_shown(checked))
    assert list(_table(checked.steps)["name"])[:2] == ["files", "structure"]
    difference = mcm_compiler.diff(folder, folder)
    assert "No change" in _is_shown(difference)
    assert set(_table(difference.memory)["a_bytes"] - difference.memory[0].b_bytes) <= {0}  # type: ignore[operator]
    (given,) = compiled.manifest.inputs
    array = np.zeros(given.shape, np.float32)
    (output,) = mcm_compiler.run(folder, {given.name: array}).values()
    assert np.isfinite(output).all()


def test_a_check_that_fails(compiled: mcm_compiler.CompileResult, tmp_path: Path) -> None:
    assert compiled.folder is not None
    copy = tmp_path / "out"
    copy.mkdir()
    for file in compiled.folder.iterdir():
        data = file.read_bytes()
        (copy / file.name).write_bytes(data + b" " if file.name == "report.md" else data)
    line = _is_shown(mcm_compiler.check(copy, seeds=1))
    assert re.search(r"✗ .*: MCM-A\d+ in files>", line)


def test_a_placement() -> None:
    placed = mcm_compiler.place("zoo:bert-tiny", "box-2gpu", PlaceOptions(placer="single"))
    line = _is_shown(placed)
    assert line.startswith("<PlacedModel ✓ zoo:bert-tiny → box-2gpu: 1 of 3 devices; ")
    assert set(_table(placed.placements)["device"]) == set(placed.device_of_node.values())


def test_an_exploration() -> None:
    swept = {"chip.sram_mib": (0.001, 64)}
    found = mcm_compiler.explore(CNN, "mcm4", swept, CompileOptions(level=0))
    assert re.search(
        r"✓ zoo:plain-cnn.* → variants of mcm4: 2 points, 1 on the front", _is_shown(found)
    )
    points = _table(found.points)
    assert points["front"].tolist() == [False, True]
    assert points["fault"][0].startswith("MCM-P")
    assert [point.settings for point in found.front] == [{"chip.sram_mib": 64}]
    nowhere = mcm_compiler.explore("no.onnx", "mcm4", swept)
    assert "runs on no variant" in _is_shown(nowhere)
    assert not nowhere.complete


def test_a_build(tmp_path: Path) -> None:
    project = f'targets = "mcm4"\nlevel = 0\n[[models]]\nfiles = "{CNN}"\n'
    (tmp_path / "mcmc.toml").write_text(project)
    built = mcm_compiler.build(tmp_path, jobs=1)
    assert ": 1 cell: 1 ok, 0 failed>" in _is_shown(built)
    (cell,) = built.cells
    assert _table(built.cells)["throughput_per_s"][0] == cell.throughput_per_s
    assert (tmp_path / built.project.output / cell.cell / "manifest.json").exists()
    again = mcm_compiler.build(tmp_path / "mcmc.toml", jobs=1)
    assert again.cells[0].cached


def test_a_measurement() -> None:
    times = (KernelTime("a", 1e-3, 0.01, 9), KernelTime("b", 2e-3, 0.03, 9))
    result = MeasuredFolder(times, {0: 3e-3}, 0.25)
    found = Measurement(result, {"name": "a machine"}, "", "net")
    assert _is_shown(found) == (
        "<Measurement ✓ net → a machine: 2 kernels, repeat error 3.0 % (median)>"
    )
    assert _table(found.kernels)["seconds"].sum() == pytest.approx(3e-3)
    assert found.figures == {"kernels": 2, "repeat": 0.03, "mapped_share": 0.75}


def test_names_may_be_hostile() -> None:
    line = {"label": "fits", "headline": "<b>&\x1b[31m", "details": [], "tone": "bad"}

    class Result(Shown):
        headline = Headline(("<script>alert(1)</script>\n", "t", "simulated"), [line], False)

    shown = Result()
    assert _is_shown(shown).startswith("<Result ✗ <script>")
    page = shown._repr_html_()
    assert "<script>" not in page
    assert "&lt;b&gt;&amp;" in page
    assert "\x1b" not in page + repr(shown)


def test_every_name_of_the_package_is_there() -> None:
    for name in mcm_compiler.__all__:
        assert getattr(mcm_compiler, name) is not None
    for name in ("place_model", "run_folder", "build_everything"):
        with pytest.raises(AttributeError):
            getattr(mcm_compiler, name)
