"""Programs in environments of their own below build/peers, and what they say when they fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.children import Child, ChildFailedError, run_child

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "build" / "peers"
WORKERS = Path(__file__).with_name("workers")

LONGEST = 200
"""Characters of a quoted failure."""

SERIOUS = re.compile(r"^(\w+\.)*\w*(Error|Exception|Interrupt)\b.*|^ERROR: .*|^error: .*")
"""Lines of a traceback or of pip that say what is wrong."""

PLACES = re.compile(r"(?:file://|https?://)\S+|(?<![\w.])/(?:[\w.+-]+/)+[\w.+-]*")
"""Paths of a machine and addresses, which say nothing to others."""


class PeerFailedError(Exception):
    """A program gave no answer; the text is its own last line."""


@dataclass(frozen=True)
class Environment:
    """Where one program is installed.

    Attributes:
        name: of the folder.
        requirements: what pip is asked for, the program first.
    """

    name: str
    requirements: tuple[str, ...]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return FOLDER / self.name / "bin" / "python"

    @property
    def _stamp(self) -> Path:
        return FOLDER / self.name / "installed.json"

    @property
    def tried(self) -> bool:
        """Whether pip was asked already."""
        return self._stamp.exists()

    def install(self) -> dict[str, Any]:
        """Installs what is asked for unless it is there, and tells what that came to.

        Returns:
            `requirements`, `wall_s`, and `fault` where pip failed.
        """
        if self._stamp.exists():
            known: dict[str, Any] = json.loads(self._stamp.read_text("utf-8"))
            if known["requirements"] == list(self.requirements):
                return known
        start = time.perf_counter()
        told: dict[str, Any] = {"requirements": list(self.requirements)}
        try:
            run_child([sys.executable, "-m", "venv", "--clear", self.python.parents[1]])
            run_child([self.python, "-m", "pip", "install", "--quiet", *self.requirements])
        except ChildFailedError as error:
            told["fault"] = quoted(str(error))
        told["wall_s"] = round(time.perf_counter() - start, 1)
        self._stamp.write_text(json.dumps(told), encoding="utf-8")
        return told

    def version(self, distribution: str) -> str:
        """Of an installed distribution; empty where it is not."""
        program = f"from importlib.metadata import version; print(version({distribution!r}))"
        found = subprocess.run(
            [self.python, "-c", program], capture_output=True, text=True, check=False
        )
        return found.stdout.strip()

    def ask(self, worker: str, request: Mapping[str, Any]) -> tuple[dict[str, Any], Child]:
        """Runs a script of `workers` with a request.

        Returns:
            Its answer, and what its process took.

        Raises:
            PeerFailedError: with what the program said.
        """
        fault = self.install().get("fault")
        if fault:
            raise PeerFailedError(fault)
        return ask(self.python, worker, request)


def ask(python: Path, worker: str, request: Mapping[str, Any]) -> tuple[dict[str, Any], Child]:
    """Runs a script of `workers` with an interpreter; see `Environment.ask`."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps(request), encoding="utf-8")
        try:
            child = run_child([python, WORKERS / f"{worker}.py", asked, answer])
        except ChildFailedError as error:
            raise PeerFailedError(quoted(str(error))) from error
        return json.loads(answer.read_text(encoding="utf-8")), child


def quoted(text: str) -> str:
    """The last line that says what is wrong, without places of a machine, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    serious = [line for line in lines if SERIOUS.match(line)]
    last = (serious or lines or ["no word"])[-1]
    last = PLACES.sub("...", last)
    return last if len(last) <= LONGEST else f"{last[: LONGEST - 3]}..."


def ordered(names: Sequence[Path]) -> list[Path]:
    """Files with numbers in their names, by number."""
    return sorted(names, key=lambda path: [int(n) for n in re.findall(r"\d+", path.stem)])
