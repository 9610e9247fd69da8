"""Signals at random moments of commands: each ends the command soon, tells it, and leaves nothing.

    python tools/signals.py --runs 200 --seed 1 --record docs/data/signals.json

Each run starts a command in a session and folders of its own and sends INT, TERM or HUP, to its
first process or to the whole group, at a moment drawn evenly from the time that the command takes
undisturbed. What must hold of every run:

- it ends within 5 s with 128 and the number of the signal, and the last line of standard error, the
  only one that a signal adds, names it; or all its work was done already, and it ends with 0;
- no process of the session, no half-written output and no temporary file is left.

A signal in the first moments, while the interpreter itself starts, meets no code of this project;
the system's own way of ending a process counts there as an end. The same seed draws the same runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = os.pathsep.join(str(ROOT / name) for name in (".", "passes", "hardware", "models"))
"""So that it is this copy of the project that runs."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMIT_S = 5.0
"""From the signal to the end of the command."""

LEFT_S = 2.0
"""From the end of the command to that of its last process."""

START_S = 0.5
"""Moments in which the interpreter may not have come to the first line of this project."""

STUCK = """
import ctypes
import os
import threading
from dataclasses import dataclass
from typing import ClassVar

from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.registry import register


@register("pass")
@dataclass(frozen=True)
class Stuck(Pass):
    name: ClassVar[str] = "stuck"
    summary: ClassVar[str] = "never comes back from native code, which holds the interpreter's lock"

    def run(self, model, context):
        ctypes.PyDLL(None).sleep(600)


@register("pass")
@dataclass(frozen=True)
class Pipe(Pass):
    name: ClassVar[str] = "pipe"
    summary: ClassVar[str] = "has onnxruntime read a model from a pipe that nobody writes to"

    def run(self, model, context):
        from pathlib import Path

        from mcm_compiler.execution.runner import open_session

        pipe = context.staging.path / "pipe.onnx"
        os.mkfifo(pipe)
        open_session(pipe)


@register("pass")
@dataclass(frozen=True)
class Kernel(Pass):
    name: ClassVar[str] = "kernel"
    summary: ClassVar[str] = "has numba compile kernels all the time"

    def run(self, model, context):
        import numba

        for _ in range(60):
            lines = "".join(f"    x = x * {i} + x ** {i + 2}\\n" for i in range(60))
            space = {}
            exec("def f(x):\\n" + lines + "    return x\\n", space)
            numba.njit("int64(int64)")(space["f"])
"""


@dataclass(frozen=True)
class Case:
    """A command to disturb.

    Attributes:
        name: of the case.
        arguments: of `mcmc`.
        outputs: names that it makes in the working folder when it succeeds.
        kept: names that may be there at any time: a training goes on where it stopped.
        span_s: seconds from which moments are drawn; None for as long as it takes undisturbed.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    span_s: float | None = None


MODEL = "zoo:bert-tiny{layers=1}"
_HANGING = ("compile", MODEL, "--target", "mcm4", "-o", "out", "--plugin", "stuck.py", "--passes")
_REST = "fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate,emit,verify"
CASES = (
    Case(
        "compile",
        ("compile", MODEL, "--target", "mcm4", "-o", "out", "--junit", "junit.xml"),
        frozenset({"out", "junit.xml"}),
    ),
    Case(
        "compile two at once",
        ("compile", "models", "--target", "mcm4", "-o", "out", "--jobs", "2"),
        frozenset({"out"}),
        # Complete output folders of single models stay.
        kept=frozenset({"out"}),
    ),
    Case("check", ("check", "ready")),
    Case(
        "parallelize",
        ("parallelize", MODEL, "--target", "mcm4", "-o", "plan.json"),
        frozenset({"plan.json"}),
    ),
    Case(
        "train",
        ("train", "policy", "-o", "policy", "--set", "target=mcm4", "--set", "data_set=set.json",
         "--set", "samples=2000", "--set", "checkpoints=2", "--set", "workers=1"),
        frozenset({"policy"}),
        kept=frozenset({"policy"}),
        span_s=12.0,
    ),
    Case("stuck in native code", (*_HANGING, f"stuck,{_REST}"), span_s=6.0),
    Case("onnxruntime reads a pipe", (*_HANGING, f"simplify,pipe,{_REST}"), span_s=6.0),
    Case("numba compiles", (*_HANGING, f"kernel,{_REST}"), span_s=6.0),
)  # fmt: skip
"""All commands, those that never end by themselves last."""


@dataclass(frozen=True)
class Run:
    """What a signal did.

    Attributes:
        case: name of the command.
        signal: its name.
        to_group: whether the whole group got it, as from a terminal.
        moment_s: when it was sent, after the start.
        exit_code: of the command; negative if the system ended it.
        ended_s: seconds from the signal to the end.
        lines: of standard error that are not of the undisturbed command.
        left: files and processes that nobody needs.
        verdict: `ended`, `finished`, `starting`, or what is wrong.
    """

    case: str
    signal: str
    to_group: bool
    moment_s: float
    exit_code: int
    ended_s: float
    lines: tuple[str, ...]
    left: tuple[str, ...]
    verdict: str


class Bench:
    """A folder with what the commands need, made once."""

    def __init__(self, folder: Path, cases: Sequence[Case] = CASES) -> None:
        self.folder = folder
        self.spans: dict[str, float] = {}
        source = folder / "source"
        source.mkdir()
        (source / "stuck.py").write_text(STUCK, encoding="utf-8")
        small = ["bert-tiny{layers=1,hidden=16,heads=2,vocab=50,seq=8}"]
        models = {"train": [f"zoo:{name}" for name in small]}
        models["validation"] = models["train"]
        (source / "set.json").write_text(json.dumps(models), encoding="utf-8")
        used = {argument for case in cases for argument in case.arguments}
        if "models" in used:
            (source / "models").mkdir()
            for name in ("a", "b", "c"):
                self._make("zoo", "bert-tiny{layers=1}", "-o", f"models/{name}.onnx")
        if "ready" in used:
            self._make("compile", MODEL, "--target", "mcm4", "-o", "ready")
        for path in source.rglob("*"):
            path.chmod(path.stat().st_mode & ~0o222)

    def _make(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "mcm_compiler", *arguments]
        environment = os.environ | {"PYTHONPATH": PACKAGES}
        subprocess.run(
            command, cwd=self.folder / "source", env=environment, check=True, capture_output=True
        )

    def start(self, case: Case, work: Path) -> subprocess.Popen[str]:
        """Starts a command in a new folder `work`."""
        (work / "tmp").mkdir(parents=True)
        for path in (self.folder / "source").iterdir():
            (work / path.name).symlink_to(path)
        environment = os.environ | {"TMPDIR": str(work / "tmp"), "PYTHONPATH": PACKAGES}
        # Else Python itself leaves the compiled form of the hanging passes beside them.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        return subprocess.Popen(
            [sys.executable, "-m", "mcm_compiler", *case.arguments],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def span_s(self, case: Case, work: Path) -> float:
        """How long the command takes undisturbed; the second time, when kernels are there."""
        if case.span_s is not None:
            return case.span_s
        if case.name not in self.spans:
            for turn in range(2):
                began = time.monotonic()
                process = self.start(case, work / f"undisturbed-{turn}")
                _, text = process.communicate()
                if process.returncode:
                    raise RuntimeError(f"{case.name} fails by itself: {text}")
                self.spans[case.name] = time.monotonic() - began
        return self.spans[case.name]


def disturb(
    bench: Bench, case: Case, number: signal.Signals, to_group: bool, moment_s: float, work: Path
) -> Run:
    """Runs a command and sends it a signal."""
    process = bench.start(case, work)
    began = time.monotonic()
    time.sleep(moment_s)
    sent = time.monotonic()
    if process.poll() is None:
        (os.killpg if to_group else os.kill)(process.pid, number)
    try:
        _, text = process.communicate(timeout=4 * LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, text = process.communicate()
    ended_s = time.monotonic() - sent
    left = _left(bench, case, work, process)
    lines = tuple(text.splitlines())
    verdict = _verdict(case, number, process.returncode, ended_s, lines, left, sent - began, work)
    shown = lines[-3:]
    return Run(
        case.name, number.name, to_group, round(moment_s, 3), process.returncode,
        round(ended_s, 3), shown, left, verdict,
    )  # fmt: skip


def _left(bench: Bench, case: Case, work: Path, process: subprocess.Popen[str]) -> tuple[str, ...]:
    known = {path.name for path in (bench.folder / "source").iterdir()} | {"tmp", *case.kept}
    if process.returncode == 0:
        known |= case.outputs
    found = [path.name for path in work.iterdir() if path.name not in known]
    found += [f"tmp/{path.name}" for path in (work / "tmp").iterdir()]
    for name in case.kept:
        found += [str(path.relative_to(work)) for path in (work / name).rglob(".mcmc-*")]
    until = time.monotonic() + LEFT_S
    while (alive := _of_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    return tuple(sorted([*found, *(f"process {pid}" for pid in alive)]))


def _of_session(session: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def _verdict(
    case: Case,
    number: signal.Signals,
    code: int,
    ended_s: float,
    lines: tuple[str, ...],
    left: tuple[str, ...],
    moment_s: float,
    work: Path,
) -> str:
    if left:
        return "something is left"
    if code == 0 and all((work / name).exists() for name in case.outputs):
        return "finished"
    if ended_s > LIMIT_S:
        return "late"
    starting = moment_s <= START_S
    if starting and (code == -number or "KeyboardInterrupt" in lines):
        return "starting"
    if code != 128 + number:
        return "wrong exit code"
    wanted = "interrupted" if number == signal.SIGINT else f"interrupted by {number.name}"
    if not lines or lines[-1] != wanted or any("Traceback" in line for line in lines):
        return "wrong lines"
    return "ended"


GOOD = frozenset({"ended", "finished", "starting"})
"""Verdicts on a run in which the signal was not lost."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Signals at random moments of commands.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, default=None)
    options = parser.parse_args()
    # Whatever this was started by: commands that ignored a signal from the start go on ignoring it.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    rng = random.Random(options.seed)  # noqa: S311 - a draw of cases, no secret
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for index in range(options.runs):
            case = CASES[index % len(CASES)]
            number, to_group, share = rng.choice(SIGNALS), rng.random() < 0.5, rng.random()
            moment_s = share * bench.span_s(case, Path(folder) / case.name)
            run = disturb(bench, case, number, to_group, moment_s, Path(folder) / f"run-{index}")
            runs.append(run)
            if run.verdict not in GOOD:
                print(json.dumps(dataclasses.asdict(run)), flush=True)
    counts = Counter(run.verdict for run in runs)
    print(dict(counts), f"slowest end {max(run.ended_s for run in runs):.2f} s")
    if options.record is not None:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "command": f"python tools/signals.py --runs {options.runs} --seed {options.seed}",
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in ("mcm-compiler", "onnxruntime", "numba", "jax")},
            },
            "verdicts": dict(sorted(counts.items())),
            "slowest_end_s": max(run.ended_s for run in runs),
            "runs": [list(dataclasses.astuple(run)) for run in runs],
            "columns": [field.name for field in dataclasses.fields(Run)],
        }
        options.record.write_text(json.dumps(record) + "\n", encoding="utf-8")
    sys.exit(any(run.verdict not in GOOD for run in runs))


if __name__ == "__main__":
    main()
