"""What a change of hardware would bring, against compiles with the changed target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcm_compiler.api import build_zoo_model, compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.terminal import report_text
from mcm_compiler.results.points import SensitivityRow
from mcm_compiler.variants import points
from mcm_compiler.variants.sensitivities import changes_of
from tests.generators.changed_targets import LINES, changed_target
from tests.generators.line_machine import line_text

_MODEL = "plain-cnn{image_size=16,stages=2,blocks=2,width=8,batch=2,classes=10}"
_SCHEMA = Path(__file__).parents[4] / "docs" / "reference" / "schema" / "report.schema.json"
_FIGURES = ("throughput_per_s", "period_s", "latency_s", "lower_bound_s", "gap", "chips_used")


def _rows(target: str) -> dict[tuple[str, float], SensitivityRow]:
    result = compile_model(
        build_zoo_model(_MODEL), target, CompileOptions(level=1, replicas=1), sensitivities=True
    )
    return {(row["resource"], row["factor"]): row for row in result.sensitivities or ()}


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, float], SensitivityRow]:
    return _rows("mcm4")


@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize("resource", LINES)
def test_figures_are_those_of_a_compile_with_the_changed_file(
    resource: str, factor: float, rows: dict[tuple[str, float], SensitivityRow], tmp_path: Path
) -> None:
    (file := tmp_path / "mcm4.toml").write_text(
        changed_target(load_target("mcm4").source_text, resource, factor)
    )
    options = CompileOptions(level=1, replicas=1, passes=DEFAULT_PIPELINE.partition(",emit")[0])
    report = build_report(compile_model(build_zoo_model(_MODEL), str(file), options))
    row = rows[resource, factor]
    assert row["faults"] == []
    assert row["lower_bound_s"] is not None
    if row.get("idle"):  # where more does not help, the bound without it counts if it is lower
        assert row["lower_bound_s"] <= report["lower_bound_s"]
    else:
        assert row["lower_bound_s"] == report["lower_bound_s"]
    assert row["period_s"] is not None
    # Its search starts from the placement for the unchanged target, and may find a faster one.
    assert row["period_s"] <= report["period_s"]
    if row["period_s"] == report["period_s"] and row["latency_s"] == report["latency_s"]:
        assert {key: row[key] for key in _FIGURES} == {key: report[key] for key in _FIGURES}
        assert row.get("energy_j") == report.get("energy", {}).get("total_j")


@pytest.mark.parametrize("model", ["dense-cnn{image_size=16}"])
@pytest.mark.parametrize("target", ["mcm4", "line"])
def test_more_of_a_resource_is_never_slower(model: str, target: str) -> None:
    ring = load_target("mcm4")
    package = target_from_text("line", line_text(ring.source_text)) if target == "line" else ring
    undivided = DEFAULT_PIPELINE.replace("parallelize", "parallelize{search=false}")
    options = CompileOptions(passes=undivided.partition(",emit")[0], replicas=1, level=1)
    found = compile_model(f"zoo:{model}", package, options, sensitivities=True)
    for row in found.sensitivities or ():
        assert "placement" not in row
        if row["speedup"] is not None and row["factor"] > 1.0:
            assert row["speedup"] >= 1.0 - 1e-9, row["resource"]
        if row["speedup"] is not None and row["factor"] < 1.0:
            assert row["speedup"] <= 1.0 + 1e-9, row["resource"]


def test_without_forks_the_figures_are_the_same(
    rows: dict[tuple[str, float], SensitivityRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "may_fork", lambda: False)
    assert _rows("mcm4") == rows


def test_what_cannot_be_says_why(tmp_path: Path) -> None:
    text = load_target("mcm4").source_text.replace("num_chips = 4", "num_chips = 1")
    (file := tmp_path / "one.toml").write_text(text)
    changes = {(c.resource.name, c.factor): c for c in changes_of(load_target(str(file)))}
    half = changes["chips", 0.5]
    assert half.target is None
    assert [d.code for d in half.why_not] == ["MCM-T004"]
    assert changes["chips", 2.0].target is not None
    # An odd number of rows is halved to the next smaller one.
    (file := tmp_path / "odd.toml").write_text(text.replace("rows = 64", "rows = 9"))
    changes = {(c.resource.name, c.factor): c for c in changes_of(load_target(str(file)))}
    assert changes["compute array", 0.5].keys == {"chip.mac_array.rows": 4}


def test_a_point_that_does_not_fit_says_so() -> None:
    model = "plain-cnn{image_size=64,stages=2,blocks=2,width=64,batch=48,classes=10}"
    result = compile_model(
        build_zoo_model(model),
        load_target("mcm4"),
        CompileOptions(
            replicas=1,
            chips=1,
            passes=DEFAULT_PIPELINE.replace("parallelize", "parallelize{search=false}"),
        ),
        sensitivities=True,
    )
    report: dict[str, Any] = {**build_report(result)}
    failed = [row for row in report["sensitivities"] if row["faults"]]
    assert [(row["resource"], row["factor"]) for row in failed] == [("SRAM", 0.5)]
    assert all(row["period_s"] is None and row["speedup"] is None for row in failed)
    shown = report_text(report)
    for row in failed:
        assert row["faults"][0]["code"] in shown


def test_a_folder_with_sensitivities_holds(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    compile_model(build_zoo_model(_MODEL), "mcm4", output=folder, sensitivities=True)
    report = json.loads((folder / "report.json").read_text())
    schema = json.loads(_SCHEMA.read_text())
    jsonschema.Draft202012Validator(schema).validate(report)
    assert len(report["sensitivities"]) == 2 * len(LINES)
    assert "twice the compute array" in (folder / "report.md").read_text()
    assert check_folder(folder).holds


def test_a_pipeline_without_figures_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        compile_model(
            build_zoo_model(_MODEL),
            "mcm4",
            CompileOptions(passes="simplify,fuse,annotate_cost,partition"),
            sensitivities=True,
        )
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U060"]
