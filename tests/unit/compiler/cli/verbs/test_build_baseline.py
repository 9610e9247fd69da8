"""The accepted baseline of `mcmc build`: it stays until another one is accepted."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import load_target
from tests.generators.mlp_files import write_network

HEAD = 'targets = "mcm4"\nlevel = 0\nreplicas = 1\ndims = { batch = 1 }\nmax_regression = "2%"\n'
PROJECT = HEAD + '[[models]]\nfiles = "models/**/*.onnx"\n'


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    write_network(Path("models/a.onnx"))
    Path("mcmc.toml").write_text(PROJECT)


def build(*arguments: str, code: int = 0):
    """The cells by name, with the codes of each, and those of the project under an empty name."""
    result = CliRunner().invoke(cli, ["build", "--jobs", "1", "--format", "json", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    found = json.loads(result.stdout)
    told = {cell["cell"]: [d["code"] for d in cell["diagnostics"]] for cell in found["cells"]}
    return told | {"": [d["code"] for d in found["diagnostics"]]}


def describe_target(path: str, launch_ns: int) -> None:
    """Writes mcm4 with another launch overhead of kernels."""
    text = load_target("mcm4").source_text.replace(
        "overhead_ns = 150", f"overhead_ns = {launch_ns}"
    )
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)


def slower(name: str = "models/a.onnx") -> None:
    write_network(Path(name), layers=6, width=64)


@pytest.mark.parametrize("option", [(), ("--no-cache",)])
def test_a_slower_model_fails_until_it_is_accepted(option: tuple[str, ...]) -> None:
    assert build(*option) == {"a/mcm4": [], "": ["MCM-B022"]}
    slower()
    for _ in range(3):
        assert build(*option, code=1)["a/mcm4"][0] == "MCM-U031"
    # Neither a lost output folder nor a lost cache is an acceptance.
    shutil.rmtree("build")
    shutil.rmtree(".mcmc-cache", ignore_errors=True)
    assert build(*option, code=1)["a/mcm4"][0] == "MCM-U031"
    assert build(*option, "--accept") == {"a/mcm4": [], "": ["MCM-B023"]}
    assert build(*option) == {"a/mcm4": [], "": []}
    # What was accepted is compared with: going back is a rise, and the baseline stays.
    write_network(Path("models/a.onnx"))
    for _ in range(2):
        assert build(*option) == {"a/mcm4": ["MCM-U033"], "": []}
    slower()
    assert build(*option) == {"a/mcm4": [], "": []}


def test_a_drift_fails_in_small_steps_as_well() -> None:
    """Five builds, each within the limit of the one before it, and together beyond it."""
    Path("mcmc.toml").write_text(PROJECT.replace('"mcm4"', '"slow.toml"'))
    found = []
    for step in range(5):
        describe_target("slow.toml", round(15000 * 1.01**step))
        result = CliRunner().invoke(cli, ["build", "--jobs", "1", "--format", "json"])
        (cell,) = json.loads(result.stdout)["cells"]
        found.append((result.exit_code, (cell["comparison"] or {"change": 0.0})["change"]))
    assert [code for code, _ in found] == [0, 0, 0, 1, 1]
    steps = [(1 + b) / (1 + a) - 1 for (_, a), (_, b) in itertools.pairwise(found)]
    assert all(-0.015 < step < -0.005 for step in steps)


def test_cells_are_accepted_one_by_one() -> None:
    write_network(Path("models/b.onnx"), seed=1)
    build("--only", "a/*")
    # A cell that is new is said to be, and the others keep theirs.
    slower()
    found = build(code=1)
    assert (found["a/mcm4"][0], found["b/mcm4"], found[""]) == ("MCM-U031", [], ["MCM-B022"])
    slower("models/b.onnx")
    assert build("--only", "b/*", "--accept") == {"b/mcm4": [], "": ["MCM-B023"]}
    found = build(code=1)
    assert (found["a/mcm4"][0], found["b/mcm4"], found[""]) == ("MCM-U031", [], [])
    # A cell that went is compared with its figures when it comes back.
    Path("models/a.onnx").rename("a.onnx")
    assert build() == {"b/mcm4": [], "": ["MCM-B024"]}
    Path("a.onnx").rename("models/a.onnx")
    assert build(code=1)["a/mcm4"][0] == "MCM-U031"
    # A part of the project says nothing about the rest of it.
    Path("models/a.onnx").unlink()
    assert build("--only", "b/*", "--accept")[""] == ["MCM-B023"]
    assert build("--accept")[""] == ["MCM-B023", "MCM-B024"]
    assert build() == {"b/mcm4": [], "": []}


def test_other_options_are_no_reason_to_accept() -> None:
    """A cell is compared by its name, whatever else changed."""
    project = PROJECT.replace('"mcm4"', '"t/own.toml"')
    Path("mcmc.toml").write_text(project.replace("replicas = 1", "replicas = 4"))
    describe_target("t/own.toml", 150)
    build()
    describe_target("t/own.toml", 1500)
    assert build(code=1)["a/own"][0] == "MCM-U031"
    describe_target("t/own.toml", 150)
    assert build() == {"a/own": [], "": []}
    Path("mcmc.toml").write_text(project)
    assert build(code=1)["a/own"][0] == "MCM-U031"


def test_failed_cells_become_no_baseline() -> None:
    Path("mcmc.toml").write_text(PROJECT + "min_throughput = 1e12\n")
    assert build(code=1) == {"a/mcm4": ["MCM-B015"], "": []}
    assert not Path(".mcmc-baseline").exists()
    # Who accepts them, accepts the figures, and the threshold stays missed.
    assert build("--accept", code=1) == {"a/mcm4": ["MCM-B015"], "": ["MCM-B022"]}
    slower()
    assert build(code=1)["a/mcm4"][:2] == ["MCM-B015", "MCM-U031"]
    Path("models/a.onnx").write_bytes(b"no model")
    assert build("--accept", code=1)["a/mcm4"] == ["MCM-I003"]
    slower()
    assert "MCM-U031" in build(code=1)["a/mcm4"]
    result = CliRunner().invoke(cli, ["build", "--accept", "--baseline", "build/mcmc"])
    assert result.exit_code == 2


DAMAGES = (
    lambda path: path.write_text(path.read_text()[:-40]),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_text(
        path.read_text().replace('"throughput_per_s": ', '"throughput_per_s": 1')
    ),
    lambda path: (path.unlink(), path.mkdir()),
    lambda path: (path.unlink(), os.mkfifo(path)),
    lambda path: (path.unlink(), path.symlink_to("nowhere")),
    lambda path: path.write_text('{"sha256": 1, "sha256": 2}'),
)


def test_a_damaged_baseline_is_no_missing_one() -> None:
    build()
    (kept,) = Path(".mcmc-baseline").rglob("accepted.json")
    before = kept.read_text()
    for number, damage in enumerate(DAMAGES):
        damage(kept)
        assert build(*["--no-cache"] * (number == 0), code=1)["a/mcm4"] == ["MCM-U030"]
        kept.rmdir() if kept.is_dir() else kept.unlink()
        kept.write_text(before)
    assert build() == {"a/mcm4": [], "": []}


def test_a_damaged_baseline_is_replaced_where_that_is_asked_for() -> None:
    build()
    (kept,) = Path(".mcmc-baseline").rglob("accepted.json")
    kept.write_text("{}")
    assert build("--accept") == {"a/mcm4": [], "": ["MCM-B023"]}
    assert build() == {"a/mcm4": [], "": []}
    kept.unlink()
    kept.mkdir()
    assert build("--accept", code=1)["a/mcm4"] == ["MCM-U050"]


def test_a_killed_build_changes_no_accepted_figures() -> None:
    for number in range(2):
        write_network(Path(f"models/m{number}.onnx"), seed=number)
    build()
    before = {path: path.read_bytes() for path in Path(".mcmc-baseline").rglob("*.json")}
    for number in range(2):
        slower(f"models/m{number}.onnx")
    command = [Path(sys.executable).with_name("mcmc"), "build", "--jobs", "1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    with process:
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGKILL)
    assert {path: path.read_bytes() for path in Path(".mcmc-baseline").rglob("*.json")} == before
    found = build(code=1)
    assert all(found[f"m{number}/mcm4"][0] == "MCM-U031" for number in range(2))


def test_builds_at_once_agree() -> None:
    write_network(Path("models/b.onnx"), seed=1)
    command = [Path(sys.executable).with_name("mcmc"), "build", "--jobs", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(command, **quiet) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert build() == {"a/mcm4": [], "b/mcm4": [], "": []}
    assert list(Path(".mcmc-baseline").rglob(".mcmc-*")) == []
