"""A sample of `tools/signals.py`: signals at drawn moments end commands, and leave nothing."""

from __future__ import annotations

import dataclasses
import importlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
SPAN_S = {"compile": 2.0, "parallelize": 1.5, "stuck in native code": 1.5,
          "onnxruntime reads a pipe": 1.5}  # fmt: skip


def test_signals_at_drawn_moments(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = importlib.import_module("signals")
    cases = [
        dataclasses.replace(case, span_s=SPAN_S[case.name])
        for case in tool.CASES
        if case.name in SPAN_S
    ]
    bench = tool.Bench(tmp_path, cases)
    rng = random.Random(7)
    for index in range(12):
        case = cases[index % len(cases)]
        number, to_group = tool.SIGNALS[index % 3], index % 2 == 0
        moment_s = rng.random() * case.span_s
        run = tool.disturb(bench, case, number, to_group, moment_s, tmp_path / str(index))
        assert run.verdict in tool.GOOD, run


@pytest.mark.skipif(sys.platform == "win32", reason="there is no nohup")
def test_a_hang_up_that_was_ignored_at_the_start_stays_ignored(tmp_path):
    code = (
        "import os, signal, sys; from mcm_compiler.console import main;"
        "from mcm_compiler.processes.interruption import end_at_once; end_at_once();"
        "os.kill(os.getpid(), signal.SIGHUP); sys.argv[1:] = ['explain', 'MCM-U050']; main()"
    )
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    finally:
        signal.signal(signal.SIGHUP, handler)
    assert done.returncode == 0
    assert "MCM-U050" in done.stdout


@pytest.mark.parametrize(
    ("redirection", "line"),
    [
        (">&-", "standard output cannot be written: it is closed"),
        (">/dev/full", "standard output cannot be written: No space left on device"),
        ("2>&-", "standard error cannot be written: it is closed"),
        ("2>/dev/full", "standard error cannot be written: No space left on device"),
    ],
)
def test_streams_that_cannot_be_written_end_a_command(redirection, line, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("only Linux has a device that is always full")
    # On the stream that is full, or closed, goes a result or a diagnostic.
    wanted = "MCM-U050" if redirection.startswith(">") else "NONE"
    command = f"'{sys.executable}' -m mcm_compiler explain {wanted} {redirection}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (done.stdout + done.stderr).splitlines() == [f"error[MCM-U052]: {line}"]
