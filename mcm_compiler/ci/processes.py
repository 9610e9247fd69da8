"""Work in several processes: results in order, a dead process costs one job, no orphans.

`concurrent.futures` gives up on all jobs when one process dies, and goes on with the next job
when a process is asked to end; a hostile model and a cancelled build need the opposite.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from mcm_compiler.plugin_files import load_plugins
from mcm_compiler.processes.crash_journal import CrashJournal, hand_on, is_heard, tell_to
from mcm_compiler.processes.interruption import deaf_children
from mcm_compiler.processes.orphans import end_with_parent
from mcm_compiler.processes.private_folders import clean_up

J = TypeVar("J")
R = TypeVar("R")

EXIT_S = 20.0
"""Time for a process that has closed its pipe to be gone."""

PATIENCE_S = 1.0
"""Time for a process to remove what it has half-written before it is killed."""


def prepare_process(plugins: tuple[Path, ...]) -> None:
    """Makes another process like this one: plug-ins are loaded, and garbage is left longer."""
    gc.set_threshold(100_000, 20, 20)
    load_plugins(plugins)


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    index: int = -1
    journal: CrashJournal = field(default_factory=CrashJournal)


def work_on_all(
    jobs: Sequence[J],
    work: Callable[[J], R],
    lost: Callable[[J, int | None, CrashJournal], R],
    processes: int,
    plugins: tuple[Path, ...] = (),
    progress: Callable[[str], None] | None = None,
) -> Generator[R]:
    """Applies `work` to all jobs: here if one process is enough, else as `run_in_processes`.

    Args:
        jobs: none, one or many.
        work: raises nothing.
        lost: the result for a job whose process died.
        processes: that work at once; 1 works in this one, unless it is a supervised command: a
            crash then costs one job alone.
        plugins: files that are loaded in each other process before its first job.
        progress: called with the job that is begun and what its process does, where one job is
            worked on at a time.

    Yields:
        The results in the order of `jobs`, each as soon as those before it are there.
    """

    def on_report(index: int, journal: CrashJournal) -> None:
        if progress is not None and at_once == 1:
            progress(f"{index + 1} of {len(jobs)}: {', '.join(journal.steps[1:2])}")

    at_once = min(processes, len(jobs))
    if is_heard() or at_once > 1:
        prepare = partial(prepare_process, plugins)
        yield from run_in_processes(jobs, work, lost, prepare, at_once, on_report)
        return
    for number, job in enumerate(jobs, start=1):
        if progress is not None:
            progress(f"{number} of {len(jobs)}: {job}")
        yield work(job)


def run_in_processes(
    jobs: Sequence[J],
    work: Callable[[J], R],
    lost: Callable[[J, int | None, CrashJournal], R],
    prepare: Callable[[], None],
    processes: int,
    on_report: Callable[[int, CrashJournal], None] | None = None,
) -> Generator[R]:
    """Applies `work` to all jobs.

    Processes are started afresh rather than forked, because a fork of a process with threads may
    hang. They see neither an interrupt nor a hang-up of the terminal: this process does, and asks
    them to end, upon which their `finally` blocks run.

    Args:
        jobs: they, `work`, `prepare` and the results are pickled.
        work: raises nothing.
        lost: the result for a job whose process died, from its exit code and its crash journal.
            What the process had half-written is gone by then.
        prepare: run in each process before its first job.
        processes: that run at once.
        on_report: called with the index of a job and what its process reports.

    Yields:
        The results in the order of `jobs`.
    """
    waiting = deque(range(len(jobs)))
    done: dict[int, R] = {}
    workers: list[_Worker] = []
    try:
        for position in range(len(jobs)):
            while position not in done:
                while waiting and len(workers) < processes:
                    workers.append(_start(work, prepare))
                    _give(workers[-1], waiting, jobs)
                ready = connection.wait([worker.pipe for worker in workers])
                for worker in [w for w in workers if w.pipe in ready]:
                    try:
                        message = worker.pipe.recv()
                    except (EOFError, OSError):
                        workers.remove(worker)
                        worker.process.join(EXIT_S)
                        clean_up(worker.journal)
                        _hand_on(worker, None)
                        done[worker.index] = lost(
                            jobs[worker.index], worker.process.exitcode, worker.journal
                        )
                        worker.pipe.close()
                        continue
                    if isinstance(message, CrashJournal):
                        worker.journal = message
                        _hand_on(worker, message)
                        if on_report is not None:
                            on_report(worker.index, message)
                        continue
                    done[worker.index] = message
                    if waiting:
                        _give(worker, waiting, jobs)
                    else:
                        workers.remove(worker)
                        _end([worker])
            yield done.pop(position)
    finally:
        _end(workers)


def _start(work: Callable[[Any], Any], prepare: Callable[[], None]) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (theirs, work, prepare, os.getpid())
    process = context.Process(target=_serve, args=arguments, daemon=True)
    with deaf_children():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _give(worker: _Worker, waiting: deque[int], jobs: Sequence[Any]) -> None:
    worker.index = waiting.popleft()
    try:
        worker.pipe.send(jobs[worker.index])
    except OSError:
        # It died before it read the job; the end of its pipe tells so where results are read.
        return


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
    deadline_s = time.monotonic() + PATIENCE_S
    for worker in workers:
        worker.process.join(max(0.0, deadline_s - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        # Nothing is left to do after one that has cleaned up by itself.
        clean_up(_last_journal(worker))
        _hand_on(worker, None)
        worker.pipe.close()


def _hand_on(worker: _Worker, journal: CrashJournal | None) -> None:
    if worker.process.pid is not None:
        hand_on(worker.process.pid, journal)


def _last_journal(worker: _Worker) -> CrashJournal:
    journal = worker.journal
    with contextlib.suppress(EOFError, OSError):
        while worker.pipe.poll():
            if isinstance(message := worker.pipe.recv(), CrashJournal):
                journal = message
    return journal


def _serve(
    pipe: Connection, work: Callable[[Any], Any], prepare: Callable[[], None], parent: int
) -> None:
    signal.signal(signal.SIGTERM, _leave)
    end_with_parent(parent)
    tell_to(pipe.send)
    prepare()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(work(job))


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    # Nothing may interrupt the cleaning up, and its parent tells the user.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    raise SystemExit(128 + signal.SIGTERM)
