"""Rates, lines in a pipe, and curves that TensorBoard reads."""

from __future__ import annotations

import builtins
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.cli.verbs.train import Rates, clock_text, training_progress
from mcm_compiler.contracts.training import TrainingProgress
from mcm_compiler.diagnostics import CompileError


def _at(done: int, **further: Any) -> TrainingProgress:
    return TrainingProgress("training", done, 100, **{"unit": "samples", **further})


def test_rates_begin_with_the_first_word_of_a_phase() -> None:
    now = [10.0]
    rates = Rates(lambda: now[0])
    assert rates.text(_at(20)) == ""
    now[0] = 10.25
    assert rates.text(_at(30)) == "", "too early to say"
    now[0] = 12.0
    assert rates.text(_at(60)) == "20.0 samples/s, 0:02 left"
    now[0] = 14.0
    assert rates.text(_at(100)) == "20.0 samples/s"
    assert rates.text(TrainingProgress("validation", 1, 9, unit="checkpoints")) == ""
    now[0] = 164.0
    slow = TrainingProgress("validation", 2, 9, unit="checkpoints")
    assert rates.text(slow) == "0.4 checkpoints/min, 17:30 left"
    assert rates.text(_at(100, unit="")) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0:00"), (5, "0:05"), (245, "4:05"), (3845.4, "1:04:05")]
)
def test_times_that_are_left(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_lines_in_a_pipe_have_rates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(1000))
    monkeypatch.setattr("mcm_compiler.cli.verbs.train.Rates", lambda: Rates(lambda: next(now)))
    with training_progress(None) as tell:
        for done in (50, 100):
            tell(_at(done, note="best 1.2"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["training 50/100: best 1.2", "training 100/100: 50.0 samples/s, best 1.2"]


def test_a_terminal_has_a_bar_with_rates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(1000))
    monkeypatch.setattr("mcm_compiler.cli.verbs.train.Rates", lambda: Rates(lambda: next(now)))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    with training_progress(None) as tell:
        for done in (25, 50):
            tell(_at(done, note="best\x1b 1.2"))
    _, first, second, end = capsys.readouterr().err.split("\r")
    assert first == f"training [{'#' * 6}{'.' * 18}] 25/100 best\\x1b 1.2\x1b[K"
    bar = f"[{'#' * 12}{'.' * 12}]"
    assert second == f"training {bar} 50/100 25.0 samples/s, 0:02 left best\\x1b 1.2\x1b[K"
    assert end == "\x1b[K"
    monkeypatch.setenv("COLUMNS", "50")
    with training_progress(None) as tell:
        tell(_at(50, note="best 1.2"))
    assert "\rtraining 50/100 best 1.2\x1b[K" in capsys.readouterr().err
    monkeypatch.setenv("TERM", "dumb")
    with training_progress(None) as tell:
        tell(_at(50))
    assert capsys.readouterr().err == ""


def _records(data: bytes) -> Iterator[bytes]:
    """The records of an event file: length, its checksum, the bytes, their checksum."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield data[at + 12 : at + 12 + length]
        at += 16 + length


def test_curves_are_read_back(tmp_path: Path) -> None:
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    with training_progress(tmp_path / "curves") as tell:
        tell(_at(20, figures={"loss": 0.5, "entropy": 2.0}))
        tell(_at(40, figures={"loss": 0.25}))
        tell(TrainingProgress("reading models", 1, 2))
    (path,) = (tmp_path / "curves").iterdir()
    found: list[tuple[int, str, float]] = []
    for record in _records(path.read_bytes()):
        event = event_pb2.Event.FromString(record)
        found += [(event.step, v.tag, v.simple_value) for v in event.summary.value]
    assert found == [
        (20, "training/loss", 0.5),
        (20, "training/entropy", 2.0),
        (40, "training/loss", 0.25),
    ]


def test_without_the_library_the_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("tensorboardX"):
            raise ImportError("No module named 'tensorboardX'")
        return own(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CompileError) as caught, training_progress(tmp_path / "curves"):
        pytest.fail("it went on without curves")
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-L012"
    assert "pip install 'mcm-compiler[tensorboard]'" in (found.hint or "")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    (tmp_path / "file").touch()
    with pytest.raises(CompileError) as caught, training_progress(tmp_path / "file" / "curves"):
        pytest.fail("it went on without curves")
    assert caught.value.diagnostics[0].code == "MCM-A002"


@pytest.mark.parametrize("curves", ["out", "out/curves"])
def test_curves_do_not_go_into_the_folder_of_the_training(curves: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli,
        ["train", "policy", "-o", str(tmp_path / "out"), "--tensorboard", str(tmp_path / curves)],
    )
    assert result.exit_code == 2
    assert "the folder of the training holds no other files" in result.stderr
    assert not list(tmp_path.iterdir())
