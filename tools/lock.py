"""Writes `requirements.lock`: the exact versions that `make setup` installs.

Resolves the project, its extras `learn`, `dev` and `docs` and its build requirements in a fresh
virtual environment and lists what pip installed there. Versions of the present lock are kept as
long as they satisfy `pyproject.toml`; `--upgrade` forgets them. Addresses of indexes are never
written, so the lock works with whatever index pip is configured for.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# The exact versions that `make setup` installs, for Python 3.11 and newer.
# Written by `make lock` (tools/lock.py); do not edit by hand.
"""
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>\S+)")


def pins_of(freeze: str, project: str) -> list[str]:
    """The `name==version` lines of `pip freeze`, sorted by name, without the project itself.

    Raises:
        ValueError: if something else than `project` was not installed from an index by version.
    """
    pins: list[str] = []
    for line in freeze.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if _PIN.fullmatch(line):
            pins.append(line)
        elif not line.startswith(f"{project} @ "):
            raise ValueError(f"no version can be pinned for '{line}'")
    return sorted(pins, key=str.lower)


def resolve(upgrade: bool) -> list[str]:
    """The pins of a fresh environment that holds all the project needs."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [f"{ROOT}[learn,dev,docs]", *pyproject["build-system"]["requires"]]
    with tempfile.TemporaryDirectory(prefix="mcm-lock-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        install = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        if LOCK.exists() and not upgrade:
            install += ["--constraint", str(LOCK)]
        subprocess.run(install, check=True)
        freeze = [str(python), "-m", "pip", "freeze"]
        listed = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
    return pins_of(listed, pyproject["project"]["name"])


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Writes requirements.lock.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    arguments = parser.parse_args()
    pins = resolve(arguments.upgrade)
    LOCK.write_text(HEADER + "\n".join(pins) + "\n", encoding="utf-8")
    print(f"{LOCK.name}: {len(pins)} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
