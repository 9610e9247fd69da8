"""Jobs in processes of their own, so that time and memory are theirs and a crash ends only one.

Children are forked: what the parent has built and loaded is there already.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from mcm_compiler.diagnostics import CompileError

Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """Something to be measured.

    Attributes:
        key: tells it from all others, also in later runs.
        head: what its record says beside what is measured.
        limit_s: wall time after which it is ended.
        work: called in the child; its entries go into the record.
        prepare: called in the parent before the fork.
    """

    key: str
    head: Record
    limit_s: float
    work: Callable[[], Record]
    prepare: Callable[[], object] = lambda: None


class Meter:
    """Measures a block: `with Meter() as meter: ...`, then `meter.figures()`."""

    def __enter__(self) -> Meter:
        self._wall_s = time.perf_counter()
        self._cpu_s = _cpu_s()
        self._base_mib = _peak_rss_mib()
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu_s = _cpu_s() - self._cpu_s
        self._wall_s = time.perf_counter() - self._wall_s
        self._peak_mib = _peak_rss_mib()

    def figures(self) -> Record:
        """Processor and wall seconds of the block, and the largest resident set of the process.

        The latter until the end of the block and until its beginning. Those of children count.
        """
        return {
            "cpu_s": self._cpu_s,
            "wall_s": self._wall_s,
            "peak_rss_mib": self._peak_mib,
            "base_rss_mib": self._base_mib,
        }


def run_jobs(jobs: Sequence[Job], workers: int, keep: Callable[[Record], None]) -> None:
    """Runs jobs, `workers` at a time, and hands each one's record to `keep` as it comes.

    A record has the job's key and head, `status` ("found", "refused", "crashed", "timed out"),
    `code` and `message` where nothing was found, the figures of `Meter`, and what its work
    returned. No job can keep the others from running.
    """
    waiting = list(reversed(jobs))
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                try:
                    job.prepare()
                except Exception as error:
                    keep({"key": job.key} | job.head | _failure(error))
                    continue
                running.append(_Running(job))
            wait([one.receiver for one in running], timeout=0.5)
            for one in list(running):
                record = one.record()
                if record is not None:
                    running.remove(one)
                    keep({"key": one.job.key} | one.job.head | record)
    finally:
        for one in running:
            one.end()


class _Running:
    def __init__(self, job: Job) -> None:
        self.job = job
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        self._process: BaseProcess = context.Process(target=_child, args=(job, sender))
        self._process.start()
        sender.close()
        self._start = time.monotonic()

    def record(self) -> Record | None:
        """What it came to; None while it works."""
        if self.receiver.poll():
            try:
                record: Record = self.receiver.recv()
            except EOFError:
                self._process.join()
                code = self._process.exitcode
                record = {"status": "crashed", "code": "", "message": f"ended with {code}"}
            self.end()
            return record
        seconds = time.monotonic() - self._start
        if seconds < self.job.limit_s:
            return None
        self.end()
        message = f"no answer after {self.job.limit_s:g} s"
        return {"status": "timed out", "code": "", "message": message, "wall_s": seconds}

    def end(self) -> None:
        """Ends it with all that it started."""
        pid = self._process.pid
        assert pid is not None
        # It leads a group of its own, once it has come so far.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.receiver.close()


def _child(job: Job, sender: Connection) -> None:
    os.setpgid(0, 0)
    with Meter() as meter:
        try:
            record = {"status": "found"} | job.work()
        except Exception as error:
            record = _failure(error)
    sender.send(meter.figures() | record)
    sender.close()


def _failure(error: Exception) -> Record:
    if isinstance(error, CompileError):
        fault = error.diagnostics[0]
        return {"status": "refused", "code": fault.code, "message": fault.message}
    return {"status": "crashed", "code": "", "message": f"{type(error).__name__}: {error}"}


def _cpu_s() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _peak_rss_mib() -> float:
    # The kernel counts in KiB on Linux and in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) * unit / 2**20
