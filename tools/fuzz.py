"""Compiles mutated models and looks for what must never happen.

A finding is a stack trace, an internal error, a compile that passes and whose check fails, a case
over the limit of computing time, memory beyond 4 GiB, files left behind, or a crash of the process
that the command line does not diagnose. Each kind is saved once, reduced, with the stack trace
beside it. The same seed gives the same mutants.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzzing.reduction import reductions
from fuzzing.seeds import write_seeds
from fuzzing.supervised import run_supervised
from fuzzing.worker import MODEL, TEMPORARY, Case, Outcome, make_model, serve

EXPORTS = Path(__file__).parents[1] / "tests" / "data"
START_LIMIT_S = 120.0
"""Further time for the first case of a process, and until one has compiled: the compiler's own
kernels may have to be translated, and are cached from then on."""
WALL_FACTOR = 4
"""Elapsed time that counts as a hang, by the computing time that does: a machine may be busy."""
POLL_S = 1.0
REDUCTION_LIMIT_S = 20.0


@dataclass
class Tally:
    """What a run found; guarded by `lock`."""

    findings: dict[str, str] = field(default_factory=dict[str, str])
    repeats: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])
    bare: Counter[str] = field(default_factory=Counter[str])
    crashes: Counter[str] = field(default_factory=Counter[str])
    first_crashes: dict[str, int] = field(default_factory=dict[str, int])
    executions: int = 0
    cpu_s: float = 0.0
    slowest: tuple[float, float, int] = (0.0, 0.0, 0)
    next_index: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Worker:
    """One worker process, started anew after a crash or a hang."""

    def __init__(self, folder: Path, seeds: Sequence[Path], limit_s: float) -> None:
        self._folder = folder
        self._seeds = seeds
        self._limit_s = limit_s
        self._compiled = False
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        (self._folder / TEMPORARY).mkdir(parents=True, exist_ok=True)
        self._process = context.Process(
            target=serve, args=(theirs, self._folder, self._seeds), daemon=True
        )
        self._process.start()
        theirs.close()
        self._fresh = True

    def execute(self, case: Case) -> Outcome:
        """The outcome of `case`; a dead or hanging process is one, too."""
        start = time.perf_counter()
        limit_s = self._limit_s
        if self._fresh or not self._compiled:
            limit_s += START_LIMIT_S
        try:
            self._connection.send(case)
            if self._answers_within(limit_s):
                outcome = self._connection.recv()
                self._fresh = False
                self._compiled |= not outcome.codes
                return outcome
            crashed, signature = False, f"hang over {self._limit_s:g} s"
        except (EOFError, OSError):
            self._process.join()
            crashed, signature = True, f"process ends with {self._process.exitcode}"
        self._process.kill()
        self._process.join()
        outcome = Outcome(signature, "", (), (), 0.0, 0.0)
        if crashed:
            outcome = self._as_users_see_it(case, signature)
        self._start()
        wall_s = time.perf_counter() - start
        return replace(outcome, cpu_s=wall_s, wall_s=wall_s)

    def _answers_within(self, limit_s: float) -> bool:
        """Whether an answer comes before that much computing, or `WALL_FACTOR` times as long."""
        pid = self._process.pid
        assert pid is not None
        start, before = time.perf_counter(), computing_s(pid)
        while not self._connection.poll(POLL_S):
            spent_s = time.perf_counter() - start
            # A process that has ended has no time any more, and `recv` tells.
            if spent_s > WALL_FACTOR * limit_s or computing_s(pid) - before > limit_s:
                return False
        return True

    def _as_users_see_it(self, case: Case, signature: str) -> Outcome:
        make_model(case, self._folder, self._seeds)
        seen = run_supervised(self._folder, self._limit_s + START_LIMIT_S)
        if seen.fault is not None:
            signature = f"{signature}, mcmc {seen.fault}"
            return Outcome(signature, seen.detail, seen.codes, (), 0.0, 0.0)
        return Outcome(None, seen.detail, seen.codes, (), 0.0, 0.0, seen.crash or seen.codes[0])

    def copy_model(self, case: Case, path: Path) -> None:
        """Writes the model of `case` to `path`."""
        make_model(case, self._folder, self._seeds)
        (self._folder / MODEL).replace(path)

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()


def computing_s(pid: int) -> float:
    """Processor time of a process and of those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def fuzz(worker: Worker, tally: Tally, arguments: argparse.Namespace, until: float) -> None:
    """Executes cases until the time is over."""
    while time.perf_counter() < until:
        with tally.lock:
            case = Case(arguments.seed, tally.next_index)
            tally.next_index += 1
        outcome = worker.execute(case)
        with tally.lock:
            tally.executions += 1
            tally.cpu_s += outcome.cpu_s
            tally.slowest = max(tally.slowest, (outcome.cpu_s, outcome.wall_s, case.index))
            tally.codes.update(set(outcome.codes) or {"compiled"})
            tally.bare.update(outcome.bare)
            if outcome.crash is not None:
                tally.crashes[outcome.crash] += 1
                tally.first_crashes.setdefault(outcome.crash, case.index)
            if outcome.signature is None:
                continue
            tally.repeats[outcome.signature] += 1
            new = outcome.signature not in tally.findings
            if new:
                tally.findings[outcome.signature] = f"case {case.index}"
        if new:
            _save(worker, case, outcome, arguments.findings)


def _save(worker: Worker, case: Case, outcome: Outcome, folder: Path) -> None:
    """Writes the model of a finding, made as small as a few seconds allow."""
    assert outcome.signature is not None
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9.-]+", "_", outcome.signature)[:100]
    model, trial = folder / f"{stem}.onnx", folder / f"{stem}.trial"
    worker.copy_model(case, model)
    (folder / f"{stem}.txt").write_text(
        f"{outcome.signature}\nseed {case.seed}, case {case.index}\n{outcome.detail}\n"
    )
    until = time.perf_counter() + REDUCTION_LIMIT_S

    def shows(data: bytes) -> bool:
        return time.perf_counter() < until and _same(worker, data, trial, outcome)

    for smaller in reductions(model.read_bytes(), shows):
        model.write_bytes(smaller)
    trial.unlink(missing_ok=True)


def _same(worker: Worker, data: bytes, trial: Path, outcome: Outcome) -> bool:
    trial.write_bytes(data)
    return worker.execute(Case(0, 0, trial)).signature == outcome.signature


def show(tally: Tally, seconds: float) -> None:
    """Prints the summary."""
    rate = tally.executions / max(tally.cpu_s, 1e-9)
    cpu_s, wall_s, index = tally.slowest
    print(
        f"{tally.executions} executions in {seconds:.0f} s, {tally.cpu_s / 60:.1f} CPU minutes, "
        f"{rate:.1f} per CPU second; slowest {cpu_s:.1f} s ({wall_s:.1f} s elapsed, case {index})"
    )
    print("outcomes:", ", ".join(f"{code} {count}" for code, count in tally.codes.most_common()))
    if tally.bare:
        print("errors without a place or a hint:", dict(tally.bare.most_common()))
    if tally.crashes:
        print(f"{tally.crashes.total()} native crashes, diagnosed")
        for crash, count in tally.crashes.most_common():
            print(f"  {count:5d} x {crash}  (case {tally.first_crashes[crash]})")
    print(f"{len(tally.findings)} findings")
    for signature, where in tally.findings.items():
        print(f"  {tally.repeats[signature]:5d} x {signature}  ({where})")


def main() -> int:
    """Parses the arguments and runs.

    Returns:
        0 when nothing was found, 1 otherwise.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="time to run (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of all mutants (default: 0)")
    parser.add_argument("--start", type=int, default=0, help="first case (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds of computing a case may take"
    )
    parser.add_argument(
        "--findings", type=Path, default=Path("build/fuzz"), help="folder for what is found"
    )
    parser.add_argument("--replay", type=Path, nargs="*", help="only execute these files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcm-fuzz-") as name:
        base = Path(name)
        return _replay(base, arguments) if arguments.replay else _run(base, arguments)


def _run(base: Path, arguments: argparse.Namespace) -> int:
    (base / "seeds").mkdir()
    seeds = write_seeds(base / "seeds", EXPORTS if EXPORTS.is_dir() else None)
    tally = Tally(next_index=arguments.start)
    start = time.perf_counter()
    until = start + arguments.seconds
    workers = [Worker(base / f"worker{i}", seeds, arguments.limit) for i in range(arguments.jobs)]
    threads = [
        threading.Thread(target=fuzz, args=(worker, tally, arguments, until)) for worker in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.stop()
    show(tally, time.perf_counter() - start)
    return 1 if tally.findings else 0


def _replay(base: Path, arguments: argparse.Namespace) -> int:
    worker = Worker(base / "worker", (), arguments.limit)
    found = 0
    for path in arguments.replay:
        outcome = worker.execute(Case(0, 0, path))
        found += outcome.signature is not None
        said = outcome.signature or " ".join(outcome.codes) or "compiled"
        said += f": {outcome.crash}" if outcome.crash is not None else ""
        print(f"{path}: {said} ({outcome.wall_s:.1f} s)")
    worker.stop()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
