"""A machine that sleeps amid a verification changes neither bytes nor verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

PAUSE_S = 2.5
"""More than any factor that a limit on computing has ever been multiplied by here."""

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from mcm_compiler.execution import runner
from mcm_compiler.processes import run_limits
from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions

run_limits.MAX_RUN_S = 0.2
run_limits.EXTRA_S_PER_BYTE = 0.0
real, pauses = runner.run_values, []

def paused(*arguments):
    if len(sys.argv) > 2 and len(pauses) < 2:
        pauses.append(1)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.6)  # whoever watches sees the pause before the run is over
    return real(*arguments)

runner.run_values = paused
result = compile_model(
    "zoo:bert-tiny{layers=1,hidden=32,heads=2,intermediate=64,vocab=50,seq=8}",
    "mcm4", CompileOptions(level=0), output=Path(sys.argv[1]),
)
print(result.verification)
"""


def run(folder, *pause):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), *pause],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pauses = 0
    while pause and pauses < 2:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        pauses += 1
        time.sleep(PAUSE_S)
        os.kill(process.pid, signal.SIGCONT)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert pauses == (2 if pause else 0)
    return stdout, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals that pause")
def test_a_pause_amid_verification_changes_nothing(tmp_path):
    verdict, files = run(tmp_path / "undisturbed")
    assert "bit_equal=True" in verdict
    assert run(tmp_path / "paused", "pause") == (verdict, files)
