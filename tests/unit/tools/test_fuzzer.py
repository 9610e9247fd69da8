"""The fuzzer tells crashes that users see diagnosed from those that they do not."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("fuzzing.supervised")


def _folder(path: Path, window: int) -> Path:
    """A case whose model crashes onnxruntime if `window` is 0."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("STFT", ["x", "step", "window"], ["y"], name="stft")],
        "stft",
        [value("x", TensorProto.FLOAT, [1, 128, 1])],
        [value("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array(1, np.int64), "step"),
            numpy_helper.from_array(np.ones(window, np.float32), "window"),
        ],
    )
    (path / "tmp").mkdir(parents=True)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path / "model.onnx")
    return path


def test_a_model_that_crashes_onnxruntime_is_no_finding(tmp_path: Path) -> None:
    model = _folder(tmp_path / "case", 0) / "model.onnx"
    command = [sys.executable, str(TOOLS / "fuzz.py"), "--replay", str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MCM-U040: the process that worked on the model crashed with SIGFPE" in done.stdout


def test_a_crash_that_the_command_line_does_not_see_is_a_finding(
    supervised: Any, tmp_path: Path
) -> None:
    assert supervised.run_supervised(_folder(tmp_path, 16), 120.0).fault == "compiles it"


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("import os; os.abort()", "exits with -6"),
        ("import sys; sys.exit(1)", "gives no diagnostic"),
        ("1 / 0", "shows a stack trace"),
        ("import time; time.sleep(60)", "hangs over 0.5 s"),
        ("import sys; print('{\"diagnostics\": [{\"code\": \"MCM-U099\"}]}'); sys.exit(1)",
         "gives MCM-U099"),
        ("import sys; open('left', 'w'); "
         "print('{\"diagnostics\": [{\"code\": \"MCM-U040\", \"message\": \"m\"}]}'); sys.exit(1)",
         "leaves left"),
    ],
    ids=["signal", "silent", "trace", "hang", "internal", "left"],
)  # fmt: skip
def test_what_users_must_not_see_is_a_finding(
    supervised: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, fault: str
) -> None:
    monkeypatch.setattr(supervised, "PROGRAM", program)
    limit_s = 0.5 if fault.startswith("hangs") else 60.0
    assert supervised.run_supervised(_folder(tmp_path / "case", 16), limit_s).fault == fault
