"""`mcmc train`: options, progress and results; the training itself is tested with the learning."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.registry import TRAINERS
from mcm_compiler.training import TrainingProgress, TrainingRequest, TrainingResult


class Recorder:
    """Takes the place of the trainer."""

    summary = "records what it is asked"
    asked: TrainingRequest

    def train(self, request: TrainingRequest, tell: Any) -> TrainingResult:
        Recorder.asked = request
        for k in range(200):
            tell(TrainingProgress("training", k + 1, 200, "best 1.2\x1b[2J"))
        return TrainingResult(request.folder / "p", 40, {"zero_shot": 1.25}, ("zoo:huge",))


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"policy": Recorder, "pipeline": Recorder}
    monkeypatch.setattr(TRAINERS, "get", lambda name: known[name])
    # The verb sets variables for libraries that are imported later.
    monkeypatch.setattr(os, "environ", dict(os.environ))


def _invoke(*args: str) -> Any:
    return CliRunner().invoke(cli, ["train", *args])


def test_options_become_a_request() -> None:
    result = _invoke(
        "policy", "-o", "out", "--target", "mcm16", "--data-set", "x.json", "--recipe", "published",
        "--samples", "400", "--checkpoints", "4", "--seed", "9", "--workers", "0",
        "--scheduler", "tcp://a:1", "--resume",
    )  # fmt: skip
    assert result.exit_code == 0
    assert Recorder.asked == TrainingRequest(
        Path("out"), "mcm16", "x.json", "published", 400, 4, 9, 0, "tcp://a:1", True
    )


def test_options_of_the_pipeline_policy_become_a_request() -> None:
    result = _invoke(
        "pipeline", "-o", "out", "--recipe", "published", "--samples", "400", "--checkpoints", "4",
        "--seed", "9", "--format", "json",
    )  # fmt: skip
    assert result.exit_code == 0
    assert Recorder.asked == TrainingRequest(
        Path("out"), recipe="published", samples=400, checkpoints=4, seed=9
    )
    assert json.loads(result.stdout)["scores"] == {"zero_shot": 1.25}


def test_defaults_are_those_of_the_contract() -> None:
    assert _invoke("policy", "-o", "out").exit_code == 0
    assert Recorder.asked == TrainingRequest(Path("out"))


def test_results_go_to_stdout_and_some_progress_to_stderr() -> None:
    result = _invoke("policy", "-o", "out")
    assert "1.2500" in result.stdout
    assert "greedy heuristic" in result.stdout
    assert "zoo:huge" in result.stdout
    lines = result.stderr.splitlines()
    assert 20 <= len(lines) <= 22
    assert lines[-1] == "training 200/200: best 1.2\\x1b[2J"


def test_results_as_json() -> None:
    result = _invoke("policy", "-o", "out", "--format", "json")
    assert json.loads(result.stdout) == {
        "policy": str(Path("out", "p")),
        "samples": 40,
        "scores": {"zero_shot": 1.25},
        "left_out": ["zoo:huge"],
    }


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["-o", "out", "--samples", "0"],
        ["-o", "out", "--checkpoints", "0"],
        ["-o", "out", "--workers", "-1"],
        ["-o", "out", "--seed", "-1"],
    ],
)
def test_wrong_usage(args: list[str]) -> None:
    assert _invoke("policy", *args).exit_code == 2


def test_without_a_word_behind_it_trainers_are_listed() -> None:
    result = _invoke("--format", "json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)["trainers"]
    assert [row["name"] for row in rows] == ["pipeline", "policy"]
    assert all(row["summary"] for row in rows)
    assert _invoke("--format", "json", "policy", "-o", "out").exit_code == 2
