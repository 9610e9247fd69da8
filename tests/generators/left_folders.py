"""Folders as processes leave them that were killed while they wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcm_compiler.processes.private_folders import PREFIX, world


def leave_private_folder(parent: Path) -> Path:
    """A half-written file in the private folder of a process that is dead by now.

    Args:
        parent: where it wrote to; made where there is none.
    """
    if world() is None:
        pytest.skip("only Linux tells which processes are alive")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = parent / f"{PREFIX}{world()}-{dead.pid}-0123456789abcdef"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"ha")
    return left


def files_of(folder: Path) -> dict[str, bytes]:
    """The bytes of all files in a folder and below, by place."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
