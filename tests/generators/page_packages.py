"""The npm packages of `tools/report_page`, installed once for all tests of a checkout."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tools" / "report_page"
FILES = ("package.json", "package-lock.json", ".npmrc")


def npm_folder() -> Path:
    """A folder with `node_modules` as the lock says; skips the test where they cannot be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    lock = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()[:16]
    kept = ROOT / "build" / "report_page" / lock
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=kept.parent))
    for name in FILES:
        shutil.copy(SOURCE / name, made / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(made)
        pytest.skip(f"npm packages cannot be had: {done.stderr.strip()[-200:]}")
    try:
        made.rename(kept)
    except OSError:  # another process was first
        shutil.rmtree(made)
    return kept
