"""`mcmc train`: options, progress and results; the training itself is tested with the learning."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.cli.verbs.train import OLD_OPTIONS
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.registry import TRAINERS


@dataclass(frozen=True)
class Recorder:
    """Takes the place of a trainer."""

    name: ClassVar[str] = "test_recorder"
    summary: ClassVar[str] = "records what it is asked"
    asked: ClassVar[tuple[Recorder, TrainingRequest]]

    samples: int = 20
    target: str = "mcm36"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples is {self.samples}, not at least 1")

    def train(self, request: TrainingRequest, tell: Any) -> TrainingResult:
        Recorder.asked = (self, request)
        for k in range(200):
            tell(TrainingProgress("training", k + 1, 200, "best 1.2\x1b[2J"))
        request.folder.mkdir(exist_ok=True)
        (request.folder / "p").touch()
        return TrainingResult(
            request.folder / "p", 40, {"zero_shot": 1.25}, ("zoo:huge",), "scores: of a test"
        )


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None]:
    monkeypatch.chdir(tmp_path)
    # The verb sets variables for libraries that are imported later.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    TRAINERS.add("test_recorder", Recorder, "a test")
    yield
    TRAINERS.remove("test_recorder")


def _invoke(*args: str) -> Any:
    return CliRunner().invoke(cli, ["train", *args])


@pytest.mark.parametrize(
    "args",
    [
        ("test_recorder{samples=400,target=mcm16}",),
        ("test_recorder", "--set", "samples=400", "--set", "target=mcm16"),
        ("test_recorder{target=mcm16}", "--set", "samples=400"),
    ],
)
def test_options_of_the_trainer_are_in_braces_or_set(args: tuple[str, ...]) -> None:
    result = _invoke(*args, "-o", "out", "--seed", "9", "--resume")
    assert result.exit_code == 0, result.output
    assert Recorder.asked == (
        Recorder(samples=400, target="mcm16"), TrainingRequest(Path("out"), 9, True)
    )  # fmt: skip
    assert "MCM-U007" not in result.stderr


def test_a_value_that_is_set_may_be_any_text() -> None:
    assert _invoke("test_recorder", "-o", "o", "--set", "scheduler=tcp://a:1,{}=").exit_code == 0
    assert Recorder.asked[0].scheduler == "tcp://a:1,{}="


def test_defaults_are_those_of_the_trainer() -> None:
    assert _invoke("test_recorder", "-o", "out").exit_code == 0
    assert Recorder.asked == (Recorder(), TrainingRequest(Path("out")))


def test_old_spellings_work_and_tell_the_new_ones() -> None:
    result = _invoke("test_recorder", "-o", "out", "--samples", "400", "--scheduler", "tcp://a:1")
    assert result.exit_code == 0, result.output
    assert Recorder.asked[0] == Recorder(samples=400, scheduler="tcp://a:1")
    assert result.stderr.count("note[MCM-U007]") == 2
    assert "write --set samples=400" in result.stderr
    assert "write --set scheduler=tcp://a:1" in result.stderr


@pytest.mark.parametrize(
    ("trainer", "options"),
    [
        (
            "policy",
            ("target", "data_set", "recipe", "samples", "checkpoints", "workers", "scheduler"),
        )
    ],
)
def test_every_old_spelling_is_an_option_of_its_trainer(
    trainer: str, options: tuple[str, ...]
) -> None:
    assert {field.name for field in fields(TRAINERS.get(trainer))} == set(options)
    assert set(options) <= set(OLD_OPTIONS)


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("--set", "pace=3"), "'test_recorder' has no option 'pace'"),
        (("--samples", "3", "--set", "samples=4"), "'samples' of 'test_recorder' is given twice"),
        (("--set", "samples=many"), "'samples'"),
        (("--set", "samples=0"), "samples is 0, not at least 1"),
        (("--workers", "2"), "'test_recorder' has no option 'workers'"),
    ],
)
def test_options_that_a_trainer_does_not_have(args: tuple[str, ...], part: str) -> None:
    result = _invoke("test_recorder", "-o", "out", *args)
    assert result.exit_code == 1
    assert "error[MCM-U002]" in result.stderr
    assert part in result.stderr


def test_an_unknown_trainer_gets_the_nearest_ones() -> None:
    result = _invoke("polisy", "-o", "out")
    assert result.exit_code == 1
    assert "error[MCM-U003]" in result.stderr
    assert "did you mean policy?" in result.stderr


def test_results_go_to_stdout_and_some_progress_to_stderr() -> None:
    result = _invoke("test_recorder", "-o", "out")
    assert "1.2500" in result.stdout
    assert "scores: of a test" in result.stdout
    assert "zoo:huge" in result.stdout
    lines = result.stderr.splitlines()
    assert 20 <= len(lines) <= 22
    assert lines[-1] == "training 200/200: best 1.2\\x1b[2J"


def test_results_as_json() -> None:
    result = _invoke("test_recorder", "-o", "out", "--format", "json")
    assert json.loads(result.stdout) == {
        "policy": str(Path("out", "p")),
        "samples": 40,
        "scores": {"zero_shot": 1.25},
        "left_out": ["zoo:huge"],
    }


@pytest.mark.parametrize(
    "args",
    [
        ["policy"],
        ["-o", "out"],
        ["policy", "-o", "out", "--seed", "-1"],
        ["policy", "-o", "out", "--set", "samples"],
        ["policy", "-o", "out", "--set", "=3"],
    ],
)
def test_wrong_usage(args: list[str]) -> None:
    assert _invoke(*args).exit_code == 2


def test_without_a_name_trainers_are_listed_with_their_options() -> None:
    result = _invoke("--format", "json")
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)["trainers"]}
    assert {"placement", "policy"} <= rows.keys()
    assert all(row["summary"] for row in rows.values())
    options = [option["name"] for option in rows["policy"]["options"]]
    assert options[2:5] == ["recipe", "samples", "checkpoints"]
    assert "recipe=default, samples=20000, checkpoints=200" in _invoke().stdout
