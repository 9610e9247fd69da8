"""Explorations, against compiles for each target."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.requests import ExploreOptions
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.exploration import explore as module
from mcm_compiler.exploration.explore import explore
from mcm_compiler.exploration.journal import Exploration, journal_path
from mcm_compiler.exploration.texts import (
    csv_text,
    exploration_page,
    fault_lines,
    front_rows,
    summary_text,
)
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.report_data import build_report
from mcm_compiler.text import json_text
from mcm_compiler.variants.points import failed_point

_MODEL = "zoo:plain-cnn{image_size=16,stages=2,blocks=2,width=8,batch=2,classes=10}"
_OPTIONS = CompileOptions(level=0)
_SCHEMA = Path(__file__).parents[4] / "docs" / "reference" / "schema" / "exploration.schema.json"
_FIGURES = ("throughput_per_s", "period_s", "latency_s", "lower_bound_s", "gap", "chips_used")


def _request(*sweeps: str, models: tuple[str, ...] = (_MODEL,), **more: Any) -> tuple[Any, ...]:
    return models, load_target("mcm4"), ExploreOptions(sweeps, **more), _OPTIONS


def _resumed(request: tuple[Any, ...]) -> tuple[Any, ...]:
    models, target, asked, options = request
    return models, target, replace(asked, resume=True), options


@pytest.fixture(scope="module")
def found() -> Exploration:
    request = _request("package.num_chips=0..4:2", "chip.sram_mib=0.001,32,64")
    return explore(*request).data


def test_points_are_those_of_compiles_for_their_targets(found: Exploration) -> None:
    points = found["models"][0]["points"]
    assert [tuple(point["settings"].values()) for point in points] == [
        (chips, sram) for chips in (0, 2, 4) for sram in (0.001, 32, 64)
    ]
    text = load_target("mcm4").source_text
    for point in points:
        chips, sram = point["settings"].values()
        changed = text.replace("num_chips = 4", f"num_chips = {chips}")
        changed = changed.replace("sram_mib = 64", f"sram_mib = {sram}")
        passes = _OPTIONS.passes.partition(",emit")[0]
        try:
            target = target_from_text("mcm4", changed)
            result = compile_model(_MODEL, target, CompileOptions(level=0, passes=passes))
        except CompileError as error:
            codes = [d.code for d in error.diagnostics if d.severity.value == "error"]
            assert [fault["code"] for fault in point["faults"]] == codes
            continue
        report = build_report(result)
        assert point["faults"] == []
        assert {key: point[key] for key in _FIGURES} == {key: report[key] for key in _FIGURES}
    assert {point["faults"][0]["code"] for point in points if point["faults"]} == {
        "MCM-T005",
        "MCM-P003",
    }
    assert sum(not point["faults"] for point in points) == 4


def test_the_result_follows_its_schema_and_its_texts_tell_all(found: Exploration) -> None:
    jsonschema.Draft202012Validator(json.loads(_SCHEMA.read_text())).validate(
        json.loads(json_text.dump(found))
    )
    (model,) = found["models"]
    assert summary_text(model).startswith("9 points, ")
    assert "5 without figures" in summary_text(model)
    told = "\n".join(fault_lines(model))
    assert "MCM-T005; with package.num_chips=0, chip.sram_mib=0.001" in told
    assert "MCM-P003; with package.num_chips=2, chip.sram_mib=0.001" in told
    assert len(front_rows(model, whole=True)) == 1 + 4
    lines = list(csv.DictReader(csv_text(found["models"]).splitlines()))
    assert len(lines) == 9
    ran = [line for line in lines if not line["fault"]]
    assert all(line["gap"] and line["bound_proof"] and line["period_s"] for line in ran)
    page = exploration_page(found).decode()
    assert page.count("<circle") % 4 == 0
    assert "<circle" in page
    assert "5 without figures" in page


def test_equal_targets_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []
    plain = module.points_of

    def counted(prepared: Any, targets: Any, at_once: int, **more: Any) -> Any:
        compiled.append(len(targets))
        return plain(prepared, targets, at_once, **more)

    monkeypatch.setattr(module, "points_of", counted)
    sweeps = ("chip.mac_array.dataflow=output_stationary", "package.channel_slots=2,2.0,3")
    (model,) = explore(*_request(*sweeps, "package.spill=none")).data["models"]
    assert compiled == [2]
    assert len(model["points"]) == 2


def test_a_killed_exploration_goes_on_and_ends_with_the_same_bytes(
    found: Exploration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = _request("package.num_chips=0..4:2", "chip.sram_mib=0.001,32,64")
    journal = journal_path(tmp_path / "out.json")

    class Killed(Exception):
        pass

    def progress(line: str) -> None:
        if " 3 of " in line:
            raise Killed

    with pytest.raises(Killed):
        explore(*request, journal=journal, progress=progress)
    # A point that no sweep has is none.
    _, *lines = (data := journal.read_bytes()).splitlines(keepends=True)
    journal.write_bytes(data + re.sub(rb'"point":\d+', b'"point":99', lines[0]))
    compiled: list[int] = []
    plain = module.points_of
    monkeypatch.setattr(
        module,
        "points_of",
        lambda prepared, targets, at_once, **more: (
            compiled.append(len(targets)) or plain(prepared, targets, at_once, **more)
        ),
    )
    resumed = explore(*_resumed(request), journal=journal)
    again, kept = resumed.data, resumed.journal
    assert compiled == [6 - 3]
    assert json_text.encoded(again) == json_text.encoded(found)
    assert kept is not None
    kept.end()
    assert not journal.exists()


def test_points_of_processes_that_died_are_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = _request("package.num_chips=1,2")
    journal = journal_path(tmp_path / "out.json")
    plain = module.points_of
    died = failed_point([Diagnostic("MCM-U037", "the process ended with exit code 1")])
    monkeypatch.setattr(module, "points_of", lambda *_, **__: iter([(0, died), (1, died)]))
    (model,) = explore(*request, journal=journal).data["models"]
    assert [fault["code"] for point in model["points"] for fault in point["faults"]] == [
        "MCM-U037",
        "MCM-U037",
    ]
    monkeypatch.setattr(module, "points_of", plain)
    (model,) = explore(*_resumed(request), journal=journal).data["models"]
    assert [point["faults"] for point in model["points"]] == [[], []]


def test_a_model_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (bad := tmp_path / "bad.onnx").write_bytes(b"no model")
    request = _request("package.num_chips=4", models=(str(bad), _MODEL))
    first, second = explore(*request).data["models"]
    assert first["name"] == "bad.onnx"
    assert first["faults"]
    assert first["points"] == []
    assert not second["points"][0]["faults"]
    assert b"bad.onnx" in exploration_page(explore(*request).data)


@pytest.mark.parametrize(
    ("sweep", "told"),
    [
        ("chip.sram_mb=1,2", "write it as 'sram_mib', in MiB"),
        ("chip.srammib=1,2", "did you mean 'chip.sram_mib'?"),
        ("<script>.x=1", "no such key"),
        ("package.num_chips=-3,0", "none of 2 combinations"),
        ("package.host_io=<b>", "none of 1 combinations"),
    ],
)
def test_sweeps_without_a_valid_target_are_told(sweep: str, told: str) -> None:
    with pytest.raises(CompileError) as caught:
        explore(*_request(sweep))
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-U062"
    assert told in f"{found.message} {found.hint}"


def test_another_model_under_the_same_name_is_told(tmp_path: Path) -> None:
    from mcm_compiler.api import build_zoo_model
    from mcm_compiler.ir.rewriting.writer import write_model

    file, journal = tmp_path / "m.onnx", tmp_path / "out.json.part"
    write_model(build_zoo_model(_MODEL.removeprefix("zoo:")), file)
    request = _request("package.num_chips=4", models=(str(file),))
    explore(*request, journal=journal)
    file.unlink()
    write_model(build_zoo_model("plain-cnn{image_size=16,stages=2,blocks=1,width=8}"), file)
    with pytest.raises(CompileError) as caught:
        explore(*_resumed(request), journal=journal)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U063"]
