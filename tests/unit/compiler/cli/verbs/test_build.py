"""`mcmc build`: what is built, what comes from the cache, and what fails a build."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from tests.generators.mlp_files import write_network

HEAD = 'targets = "mcm4"\nlevel = 0\nreplicas = 1\ndims = { batch = 1 }\n'
PROJECT = HEAD + '[[models]]\nfiles = "models/**/*.onnx"\n'


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def write(text: str) -> None:
    Path("mcmc.toml").write_text(text, encoding="utf-8")


def build(*arguments: str, code: int = 0):
    result = CliRunner().invoke(cli, ["build", "--jobs", "1", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def cells(*arguments: str, code: int = 0):
    return json.loads(build(*arguments, "--format", "json", code=code).stdout)["cells"]


def contents(folder: str | Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def codes(cell) -> list[str]:
    return [d["code"] for d in cell["diagnostics"]]


def test_a_build_compiles_checks_and_keeps_every_cell() -> None:
    write_network(Path("models/a.onnx"))
    write_network(Path("models/deep/b.onnx"), seed=1)
    write(PROJECT)
    first = build()
    assert [line.split()[:2] for line in first.stdout.splitlines()] == [
        ["ok", "a/mcm4"],
        ["ok", "deep/b/mcm4"],
        ["2", "cells:"],
    ]
    assert "wrote to build/mcmc" in first.stderr
    made = contents("build/mcmc")
    assert "deep/b/mcm4/report.json" in made
    again = cells("--junit", "out/junit.xml", "--summary", "out/summary.md")
    assert [(cell["cell"], cell["ok"], cell["cached"]) for cell in again] == [
        ("a/mcm4", True, True),
        ("deep/b/mcm4", True, True),
    ]
    assert {step["name"] for step in again[0]["check"]} >= {"files", "memory", "equality"}
    assert again[0]["figures"]["throughput_per_s"] > 0
    assert contents("build/mcmc") == made
    (suite,) = ET.parse("out/junit.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("mcm4", "2", "0")
    assert "2 cells: 2 ok, 0 failed, 2 from the cache" in Path("out/summary.md").read_text()

    # What was removed comes back from the cache, to the byte; what changed is compiled anew.
    shutil.rmtree("build")
    write_network(Path("models/a.onnx"), seed=7)
    third = cells()
    assert [cell["cached"] for cell in third] == [False, True]
    now = contents("build/mcmc")
    assert now["deep/b/mcm4/report.json"] == made["deep/b/mcm4/report.json"]
    assert now["a/mcm4/chip_00.onnx"] != made["a/mcm4/chip_00.onnx"]


def test_a_changed_cache_and_a_changed_output_are_noticed() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT)
    build()
    made = contents("build/mcmc")
    # Somebody writes into the output folder: it is put right, silently.
    Path("build/mcmc/a/mcm4/report.md").write_text("mine")
    assert cells()[0]["cached"]
    assert contents("build/mcmc") == made
    # Somebody writes into the cache: the cell is compiled anew, and told.
    (kept,) = Path(".mcmc-cache/entries").glob("*/*/output/chip_00.onnx")
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")
    (cell,) = cells()
    assert (cell["cached"], cell["ok"], codes(cell)) == (False, True, ["MCM-B014"])
    assert "chip_00.onnx" in cell["diagnostics"][0]["message"]
    (entry,) = Path(".mcmc-cache/entries").glob("*/*/entry.json")
    entry.write_text(entry.read_text().replace('"gap": ', '"gap": 0.00'))
    (cell,) = cells()
    assert (cell["cached"], codes(cell)) == (False, ["MCM-B014"])
    (cell,) = cells()
    assert (cell["cached"], codes(cell)) == (True, [])
    assert contents("build/mcmc") == made


def test_pages_and_their_index_come_from_the_cache_as_well() -> None:
    write_network(Path("models/a.onnx"))
    write_network(Path("models/deep/b.onnx"), seed=1)
    write(f"html = true\n{PROJECT}")
    first = cells()
    assert [cell["page"] for cell in first] == ["build/mcmc/a/mcm4.html",
                                                "build/mcmc/deep/b/mcm4.html"]  # fmt: skip
    made = contents("build/mcmc")
    assert {name for name in made if name.endswith(".html")} == {
        "index.html", "a/mcm4.html", "deep/b/mcm4.html"
    }  # fmt: skip
    assert all(link in made["index.html"] for link in (b'"a/mcm4.html"', b'"deep/b/mcm4.html"'))
    when = Path("build/mcmc/a/mcm4.html").stat().st_mtime_ns
    Path("build/mcmc/deep/b/mcm4.html").write_text("mine")
    assert all(cell["cached"] for cell in cells())
    # The first build had no baseline, which its index shows.
    made["index.html"] = Path("build/mcmc/index.html").read_bytes()
    assert contents("build/mcmc") == made
    assert Path("build/mcmc/a/mcm4.html").stat().st_mtime_ns == when
    # All but the cache is gone.
    shutil.rmtree("build")
    assert all(cell["cached"] for cell in cells())
    assert contents("build/mcmc") == made
    # Somebody writes into the page in the cache.
    kept = sorted(Path(".mcmc-cache/entries").glob("*/*/page-*.html"))
    kept[0].write_text("mine")
    shutil.rmtree("build")
    assert all(cell["cached"] for cell in cells())
    assert contents("build/mcmc") == made


def test_pages_are_made_of_cells_that_were_built_without() -> None:
    write_network(Path("models/a.onnx"))
    write(f"html = true\n{PROJECT}")
    (cell,) = cells("--no-html")
    assert (cell["cached"], cell["page"]) == (False, None)
    assert not list(Path("build").rglob("*.html"))
    (cell,) = cells()
    assert (cell["cached"], cell["page"]) == (True, "build/mcmc/a/mcm4.html")
    made = contents("build/mcmc")
    shutil.rmtree("build")
    shutil.rmtree(".mcmc-cache")
    cells("--no-cache", "--html")
    assert contents("build/mcmc") == made


def test_the_index_keeps_cells_that_are_not_built() -> None:
    write_network(Path("models/a.onnx"))
    write_network(Path("models/b.onnx"), seed=1)
    write(PROJECT)
    build("--html")
    build("--html", "--only", "a")
    text = Path("build/mcmc/index.html").read_text()
    assert '<a href="b/mcm4.html">b/mcm4</a></td><td>not built this time</td>' in text


@pytest.mark.parametrize("option", ["--junit", "--sarif", "--summary"])
def test_files_for_ci_take_no_place_of_the_build(option: str) -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT)
    for page in ("build/mcmc/index.html", "build/mcmc/a/mcm4.html"):
        told = build("--html", option, page, code=2).stderr
        assert f"--html and {option} name one file" in told
    assert "error[MCM-U054]" in build(option, "build/mcmc/a/mcm4/deep/x", code=1).stderr
    assert not Path("build").exists()


def test_pages_take_no_place_of_files_of_others() -> None:
    write_network(Path("models/a.onnx"))
    write('output = "site"\n' + PROJECT)
    for page in (Path("site/index.html"), Path("site/a/mcm4.html")):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("<!doctype html>\n<html>mine</html>")
        told = build("--html", code=1).stderr
        assert "error[MCM-U021]" in told
        assert f"at: {page}" in told
        assert page.read_text().endswith("mine</html>")
        assert not Path("site/a/mcm4").exists()
        page.unlink()
    build("--html")
    build("--html")


def test_a_page_that_cannot_be_written_fails_its_cell() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT)
    Path("build/mcmc/a/mcm4.html").mkdir(parents=True)
    for cached in (False, True):
        (cell,) = cells("--html", code=1)
        assert (cell["cached"], codes(cell)) == (cached, ["MCM-U050"])
        assert cell["page"] is None
    assert "failed: MCM-U050" in Path("build/mcmc/index.html").read_text()


def test_sensitivities_are_compiled_where_they_are_asked_for() -> None:
    write_network(Path("models/a.onnx"))
    write(f"sensitivities = true\n{PROJECT}")
    (cell,) = cells()
    report = json.loads(Path(cell["folder"], "report.json").read_text())
    assert report["sensitivities"]
    write(PROJECT)
    (cell,) = cells()
    assert not cell["cached"]
    assert not json.loads(Path(cell["folder"], "report.json").read_text()).get("sensitivities")


def test_thresholds_fail_with_numbers_and_without_a_new_compile() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT)
    build()
    asked = 'min_throughput = 1e12\nmax_latency = "1 ns"\nmax_gap = "0%"\n'
    write(PROJECT + asked)
    (cell,) = cells("--sarif", "s.sarif", code=1)
    assert cell["cached"]
    assert codes(cell)[:2] == ["MCM-B015", "MCM-B016"]
    told = cell["diagnostics"][0]
    assert "and at least 1,000,000,000,000 inferences/s is asked for" in told["message"]
    assert told["at"] == "a/mcm4, mcmc.toml:5: 'models'"
    results = json.loads(Path("s.sarif").read_text())["runs"][0]["results"]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "mcmc.toml"
    assert place["region"]["startLine"] == 5


def test_faults_of_options_name_the_keys_of_the_project() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT + 'max_latency = "1 h"\nlatency_limit = "1 ns"\n')
    (cell,) = cells(code=1)
    assert codes(cell) == ["MCM-P062"]
    assert cell["diagnostics"][0]["at"] == "option latency_limit, mcmc.toml:5: 'models'"
    write(PROJECT + 'latency_limit = "5 ms"\nobjective = "latency"\n')
    (cell,) = cells(code=1)
    (told,) = cell["diagnostics"]
    assert told["message"].startswith("latency_limit is a limit on placements")
    write(PROJECT + "chips = 99\n")
    (cell,) = cells(code=1)
    assert cell["diagnostics"][0]["at"] == "option chips, mcmc.toml:5: 'models'"


def test_expected_failures() -> None:
    Path("models").mkdir()
    Path("models/a.onnx").write_bytes(b"no model")
    expected = 'expected_failure = { code = "MCM-I003", reason = "to come" }\n'
    write(PROJECT + expected)
    (cell,) = cells()
    assert (cell["ok"], cell["folder"], cell["figures"]) == (True, None, None)
    assert codes(cell) == ["MCM-B013", "MCM-I003"]
    assert {d["severity"] for d in cell["diagnostics"]} == {"note"}
    assert not Path("build").exists()
    (cell,) = cells()
    assert cell["cached"]
    write(PROJECT + expected.replace("I003", "P016"))
    (cell,) = cells(code=1)
    assert codes(cell) == ["MCM-I003", "MCM-B012"]
    write_network(Path("models/a.onnx"))
    write(PROJECT + expected)
    (cell,) = cells(code=1)
    assert (codes(cell), cell["folder"]) == (["MCM-B011"], "build/mcmc/a/mcm4")


def test_a_named_baseline_is_compared_with_and_left_alone() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT)
    build()
    shutil.copytree("build/mcmc", "before")
    write_network(Path("models/a.onnx"), layers=6, width=64)
    (cell,) = cells("--baseline", "before", "--summary", "s.md", code=1)
    assert codes(cell)[0] == "MCM-U031"
    assert cell["comparison"]["change"] < -0.03
    assert "there was no op of that name before" in cell["comparison"]["reasons"][0]
    assert "### Failed" in Path("s.md").read_text()
    write(PROJECT + 'max_regression = "99%"\n')
    assert cells("--baseline", "before", "--summary", "s.md")[0]["cached"]
    assert "### Changed" in Path("s.md").read_text()
    # The accepted baseline has a form that can be named as well.
    (cell,) = cells("--baseline", ".mcmc-baseline")
    assert cell["comparison"]["change"] < -0.03
    # The same as the baseline is no change; a cell that it lacks is told.
    shutil.rmtree("before")
    shutil.copytree("build/mcmc", "before")
    assert cells("--baseline", "before")[0]["comparison"]["change"] == 0.0
    shutil.rmtree("before/a")
    assert codes(cells("--baseline", "before")[0]) == ["MCM-U035"]
    assert "MCM-U030" in build("--baseline", "gone", code=1).stderr


def test_profiles_levels_and_only() -> None:
    write_network(Path("models/a.onnx"))
    write(
        HEAD.replace("level = 0", "levels = [0, 1]").replace("dims = { batch = 1 }\n", "")
        + '[[models]]\nfiles = "models/a.onnx"\nname = "net"\n'
        '[[models.profiles]]\nname = "one"\ndims = { batch = 1 }\n'
        '[[models.profiles]]\nname = "two"\ndims = { batch = 2 }\n'
    )
    found = cells("--only", "net/two/*", "--only", "*/O1")
    assert [cell["cell"] for cell in found] == [
        "net/one/mcm4/O1",
        "net/two/mcm4/O0",
        "net/two/mcm4/O1",
    ]
    report = json.loads(Path("build/mcmc/net/two/mcm4/O0/report.json").read_text())
    assert report["model"]["dims"] == {"batch": 2}
    assert "MCM-B018" in build("--only", "x*", code=1).stderr


def test_the_project_may_lie_elsewhere_and_the_cache_may_be_left_out(tmp_path) -> None:
    write_network(Path("sub/models/a.onnx"))
    Path("sub/mcmc.toml").write_text(PROJECT)
    (cell,) = cells("sub/mcmc.toml", "--no-cache", "--junit", "junit.xml")
    assert not cell["cached"]
    assert Path(os.getcwd()) == tmp_path
    assert Path("sub/build/mcmc/a/mcm4/report.json").is_file()
    assert Path("junit.xml").is_file()
    assert not Path("sub/.mcmc-cache").exists()


def test_a_dimension_that_only_some_models_have(tmp_path) -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT + "dims = { batch = 1, seq = 3 }\n")
    assert codes(cells()[0]) == []
    write(HEAD + '[[models]]\nfiles = "models/a.onnx"\ndims = { seq = 3 }\n')
    (cell,) = cells("--sarif", "s.sarif", code=1)
    assert codes(cell) == ["MCM-U005"]
    assert cell["diagnostics"][0]["at"].endswith(", mcmc.toml:5: 'models'")
    (found,) = json.loads(Path("s.sarif").read_text())["runs"][0]["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "mcmc.toml"


def test_sizes_of_patterns_that_dimensions_are_made_of() -> None:
    write_network(Path("models/a.onnx"))
    model = onnx.load("models/a.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "2*batch"
    onnx.save(model, "models/a.onnx")
    write(PROJECT)
    (cell,) = cells()
    assert (cell["ok"], codes(cell)) == (True, [])
    manifest = json.loads(Path(cell["folder"], "manifest.json").read_text())
    assert manifest["inputs"][0]["shape"] == [2, 8]


def test_a_size_that_no_model_has_is_told(tmp_path) -> None:
    """A misspelt one would be left out for every model without a word."""
    write_network(Path("models/a.onnx"))
    write_network(Path("models/b.onnx"))
    write(
        HEAD.replace("batch = 1", "batch = 1, bach = 2")
        + '[[models]]\nfiles = "models/*.onnx"\ndims = { length = 3 }\n'
    )
    for cached in (False, True):
        told = build("--summary", "s.md", "--sarif", "s.sarif", "--format", "json")
        found = json.loads(told.stdout)
        assert all(cell["ok"] and cell["cached"] == cached for cell in found["cells"])
        of_sizes = [d for d in found["diagnostics"] if d["severity"] == "warning"]
        assert [(d["code"], d["severity"], d["at"], d["hint"]) for d in of_sizes] == [
            ("MCM-B020", "warning", "mcmc.toml:4: 'dims.bach'", "did you mean 'batch'?"),
            ("MCM-B020", "warning", "mcmc.toml:7: 'models.dims.length'", "leave the size out"),
        ]
        assert "no model has the dimension 'bach'; they have 'batch'" in told.stderr
        assert "no model has the dimension" in Path("s.md").read_text()
        (run,) = json.loads(Path("s.sarif").read_text())["runs"]
        lines = [
            result["locations"][0]["physicalLocation"]["region"]["startLine"]
            for result in run["results"]
            if result["ruleId"] == "MCM-B020"
        ]
        assert lines == [4, 7]
    # Others than those that are built may have it.
    assert "MCM-B020" not in build("--only", "a/*").stderr


def test_sample_inputs_are_compared() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT + 'inputs = "sample.npz"\n')
    np.savez("sample.npz", x=np.ones((1, 8), np.float32))
    (cell,) = cells()
    (equality,) = (step for step in cell["check"] if step["name"] == "equality")
    assert "1 data set" in equality["detail"]
    np.savez("sample.npz", x=np.zeros((1, 8), np.float32))
    assert not cells()[0]["cached"]
    np.savez("sample.npz", y=np.zeros((1, 8), np.float32))
    (cell,) = cells(code=1)
    assert codes(cell)[0] == "MCM-I051"


def test_github_gets_a_summary_and_annotations(monkeypatch) -> None:
    Path("models").mkdir()
    Path("models/a.onnx").write_bytes(b"no model")
    write(PROJECT)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", os.getcwd())
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "step.md")
    Path("step.md").write_text("before\n")
    result = build("--sarif", "s.sarif", code=1)
    assert "::error file=models/a.onnx,line=1,title=MCM-I003 a/mcm4::" in result.stderr
    assert Path("step.md").read_text().startswith("before\n## mcmc build\n")
    found = json.loads(Path("s.sarif").read_text())["runs"][0]["results"][0]
    place = found["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (found["ruleId"], place["uri"]) == ("MCM-I003", "models/a.onnx")


def test_annotations_name_files_of_the_repository(tmp_path, monkeypatch) -> None:
    write_network(Path("repo/sub/models/a.onnx"))
    Path("repo/.git").mkdir()
    Path("repo/sub/mcmc.toml").write_text(PROJECT.replace("batch = 1", "batch = 1, bach = 2"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    for folder, project in ((".", "repo/sub"), ("repo", "sub/mcmc.toml"), ("repo/sub", ".")):
        monkeypatch.chdir(tmp_path / folder)
        result = build(project, "--sarif", str(tmp_path / "s.sarif"))
        assert "::warning file=sub/mcmc.toml,line=4,title=MCM-B020" in result.stderr
        (run,) = json.loads((tmp_path / "s.sarif").read_text())["runs"]
        places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
        assert {place["artifactLocation"]["uri"] for place in places} == {"sub/mcmc.toml"}


def test_what_is_not_proven_fails_a_strict_build() -> None:
    model = "zoo:plain-cnn{image_size=8,stages=1,blocks=1,width=4,shape_only=true}"
    write(HEAD + f'[[models]]\nfiles = "{model}"\n')
    (cell,) = cells()
    assert (cell["ok"], cell["model"], "MCM-U051" in codes(cell)) == (True, model, False)
    (cell,) = cells("--strict", code=3)
    assert cell["cached"]
    errors = {d["code"] for d in cell["diagnostics"] if d["severity"] == "error"}
    assert errors == {"MCM-U051"}


def test_a_folder_whose_name_is_too_long_fails_its_cell_alone() -> None:
    write_network(Path("models/a.onnx"))
    write_network(Path("models/b.onnx"))
    long = f'name = "{"n" * 300}"\n'
    write(f'{HEAD}[[models]]\nfiles = "models/a.onnx"\n{long}[[models]]\nfiles = "models/b.onnx"\n')
    first, second = cells(code=1)
    assert codes(first) == ["MCM-A002"]
    assert second["ok"]


def test_plugins_that_fail_are_told_once() -> None:
    write_network(Path("models/a.onnx"))
    write(PROJECT)
    Path("broken.py").write_text("raise ValueError('mine')\n")
    for path, told in (
        ("nope.py", "the plug-in file cannot be read: No such file or directory"),
        ("models", "the plug-in file cannot be read: it is not a regular file"),
        ("broken.py", "the plug-in fails: ValueError: mine"),
    ):
        for options in ((), ("--jobs", "2", "--no-cache")):
            shown = build("--plugin", path, *options, code=1).stderr
            assert shown.count("error[MCM-X004]") == 1
            assert told in shown or "does not exist or is not Python" in shown
            assert f"at: {Path(path).absolute()}" in shown
    assert not Path("build").exists()


def test_faults_of_the_project_stop_a_build() -> None:
    write(PROJECT)
    assert "MCM-B007" in build(code=1).stderr
    write_network(Path("models/a.onnx"))
    write(PROJECT + 'cache = "models"')
    assert "MCM-B002" in build(code=1).stderr
    write('cache = "models"\n' + PROJECT)
    assert "MCM-B019" in build(code=1).stderr
    assert sorted(os.listdir()) == ["mcmc.toml", "models"]
    assert "MCM-B001" in build("none.toml", code=1).stderr
