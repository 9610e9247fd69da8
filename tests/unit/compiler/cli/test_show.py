"""Lists on a terminal for real: no line is longer than it is wide."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty")


@pytest.mark.parametrize("columns", [20, 40, 60])
def test_lists_fit_the_terminal(columns: int) -> None:
    code = (
        "from mcm_compiler.cli.main import cli\n"
        "for words in (['targets'], ['costs'], ['targets', 'show', 'mcm36']):\n"
        "    try:\n        cli.main(words)\n    except SystemExit:\n        pass\n"
    )
    reading, terminal = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=terminal, env=env) as running:
        os.close(terminal)
        parts: list[bytes] = []
        # The system ends a terminal whose last writer has gone with an error.
        with contextlib.suppress(OSError):
            while part := os.read(reading, 1 << 16):
                parts.append(part)
        os.close(reading)
    assert running.returncode == 0
    text = b"".join(parts).decode().replace("\r\n", "\n")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines()
    assert lines
    assert all(len(line) <= columns for line in lines), [x for x in lines if len(x) > columns]
    assert any("mcm36-stream" in line for line in lines)
    assert any(re.search(r"\b150$", line) for line in lines), "launch_overhead_ns"
