"""A user's own cut, pins and forbidden chips, from the command line to a folder that holds."""

from __future__ import annotations

import json

from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.options import DEFAULT_PIPELINE

UNDIVIDED = DEFAULT_PIPELINE.replace("parallelize", "parallelize{search=false}")
ONE_PIPELINE = ("--replicas", "1", "--round", "1", "--passes", UNDIVIDED)


def mcmc(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result


def test_a_cut_goes_out_and_in_again(workspace):
    first, again = workspace / "first", workspace / "again"
    cut, same = workspace / "cut.csv", workspace / "same.json"
    model, target = "zoo:bert-tiny", ("--target", "mcm4", *ONE_PIPELINE)
    mcmc("compile", model, *target, "-o", first, "--assignment-out", cut)
    mcmc(
        "compile", model, *target, "-o", again,
        "--assignment", cut, "--assignment-out", same, "--format", "json",
    )  # fmt: skip
    reports = [json.loads((folder / "report.json").read_text()) for folder in (first, again)]
    assert reports[1]["strategy"] == "manual"
    assert reports[0]["period_s"] == reports[1]["period_s"]
    rows = dict(line.rsplit(",", 1) for line in cut.read_text().splitlines()[1:])
    found = {row["name"]: str(row["chip"]) for row in json.loads(same.read_text())["assignment"]}
    assert found == rows
    mcmc("check", again)


def test_forbidden_chips_stay_off_in_the_folder(workspace):
    folder = workspace / "out"
    mcmc(
        "compile", "zoo:bert-tiny", "--target", "mcm4", "-o", folder,
        "--forbid-chip", "1", "--pin", "*=0",
    )  # fmt: skip
    report = json.loads((folder / "report.json").read_text())
    assert report["options"]["forbidden_chips"] == [1]
    assert report["options"]["pins"] == [["*", 0]]
    assert "chips = [1]\noff = true" in (folder / "target.toml").read_text()
    assert [path.name for path in sorted(folder.glob("chip_*.onnx"))] == ["chip_00.onnx"]
    mcmc("check", folder)
