"""A case that ended the fuzzer's worker, once more as a user runs it: by the command line.

The worker compiles in its own process, which native code may end. The command line survives that
and has to diagnose it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzzing.worker import ADDRESS_SPACE_BYTES, INTERNAL_CODES, MODEL, OUTPUT, TEMPORARY, left_files

CRASH_CODE = "MCM-U040"

PROGRAM = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE_BYTES}, {ADDRESS_SPACE_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from mcm_compiler.cli.main import main
main()
"""


@dataclass(frozen=True)
class Seen:
    """What a user sees.

    Attributes:
        fault: why it is a finding, or None.
        codes: of the diagnostics.
        crash: message of the diagnosed crash, or None.
        detail: what was printed.
    """

    fault: str | None
    codes: tuple[str, ...] = ()
    crash: str | None = None
    detail: str = ""


def run_supervised(folder: Path, limit_s: float) -> Seen:
    """Compiles and checks the model that lies in `folder`, and judges what a user sees.

    Args:
        folder: holds the model and an empty temporary folder.
        limit_s: for each of the two commands.
    """
    output = folder / OUTPUT
    seen = _run(folder, limit_s, "compile", MODEL, "-o", OUTPUT, "--target", "mcm4")
    if seen is None:
        seen = _run(folder, limit_s, "check", OUTPUT)
        shutil.rmtree(output)
    if seen is None:
        return Seen("compiles it")
    left = left_files(folder)
    if seen.fault is None and left:
        return Seen(f"leaves {left[0]}", seen.codes, seen.crash, " ".join(left))
    return seen


def _run(folder: Path, limit_s: float, *arguments: str) -> Seen | None:
    """What is seen of a command that fails; None for one that does not."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments, "--format", "json"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / TEMPORARY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Seen(f"hangs over {limit_s:g} s")
    if process.returncode == 0:
        return None
    detail = f"{stdout}\n{stderr}"
    if process.returncode != 1:
        return Seen(f"exits with {process.returncode}", detail=detail)
    if "Traceback" in stderr:
        return Seen("shows a stack trace", detail=detail)
    try:
        found: list[dict[str, Any]] = json.loads(stdout)["diagnostics"]
    except (ValueError, KeyError):
        found = []
    codes = tuple(d["code"] for d in found)
    if not codes:
        return Seen("gives no diagnostic", detail=detail)
    if internal := INTERNAL_CODES.intersection(codes):
        return Seen(f"gives {min(internal)}", codes, detail=detail)
    crash = next((d["message"] for d in found if d["code"] == CRASH_CODE), None)
    return Seen(None, codes, crash, detail)
