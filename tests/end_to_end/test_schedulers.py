"""Verbs whose work is done by two workers of a Dask scheduler find what they find without."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.workers import results_of_workers
from mcm_compiler.measuring.measurement import PLAIN, device_of
from mcm_compiler.measuring.times_files import machine_facts

MODEL = "zoo:plain-cnn{image_size=16,stages=2,blocks=1,width=16}"
PROJECT = f"""
targets = ["mcm4", "mcm16"]
level = 0
[[models]]
files = ["{MODEL}"]
"""


@pytest.fixture(scope="module")
def scheduler() -> Generator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def mcmc(*words: str) -> Any:
    found = CliRunner().invoke(cli, [*words, "--format", "json"])
    assert found.exit_code == 0, found.output + found.stderr
    return json.loads(found.stdout)


def test_points_of_an_exploration(scheduler: str) -> None:
    words = ["explore", MODEL, "--target", "mcm4", "-O0", "--sweep", "package.num_chips=1,2"]
    assert mcmc(*words, "--scheduler", scheduler) == mcmc(*words)


def test_cells_of_a_build(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mcmc.toml").write_text(PROJECT)
    words = ["build", "--no-cache"]
    cells = mcmc(*words, "--scheduler", scheduler)["cells"]
    assert [cell["ok"] for cell in cells] == [True, True]
    assert all(cell["figures"]["throughput_per_s"] > 0 for cell in cells)


def test_kernels_of_a_worker_s_machine(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compile_model(MODEL, "cpu-ring", PLAIN, output="out")
    found = mcmc("measure", "out", "--scheduler", scheduler)
    assert found["machine"] == machine_facts(device_of(load_target("cpu-ring"), None))
    assert found["kernels"] > 0
    assert Path(found["table"]).read_text().count("\n") == found["kernels"] + 1


def test_a_worker_that_does_not_see_the_files(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.getcwd", lambda: str(tmp_path / "elsewhere"))
    with pytest.raises(CompileError) as caught:
        list(results_of_workers(scheduler, [list]))
    assert caught.value.diagnostics[0].code == "MCM-L015"


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("mcm_compiler.processes.jobs.CONNECT_S", 0.2)
    words = ["explore", MODEL, "--target", "mcm4", "-O0", "--sweep", "package.num_chips=1,2"]
    found = CliRunner().invoke(cli, [*words, "--scheduler", "tcp://127.0.0.1:9"])
    assert isinstance(found.exception, CompileError) or "MCM-L010" in found.stderr
