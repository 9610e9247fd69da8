"""Judging cases in several processes, each case under a time limit."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from backend_cases.collection import Case
from backend_cases.judging import FAILED, NOT_RUN, Outcome, judge

POLL_S = 0.5


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    index: int | None = None
    started: float = 0.0
    phase: str = "reference"


def judge_all(cases: Sequence[Case], processes: int, limit_s: float) -> list[Outcome]:
    """Outcomes in the order of `cases`.

    A case that kills its process or exceeds the limit is an outcome like any other: it counts
    against onnxruntime while the model itself runs, and against the compiler afterwards.

    Args:
        cases: handed to the workers by fork, so that they need not be collected again.
        processes: workers.
        limit_s: wall time for one case.
    """
    outcomes: dict[int, Outcome] = {}
    # Taken from the end, where the light models are, which take longest.
    waiting = list(range(len(cases)))
    workers = [_start(cases) for _ in range(min(processes, len(cases)))]
    try:
        while len(outcomes) < len(cases):
            for worker in workers:
                if worker.index is None and waiting:
                    worker.index = waiting.pop()
                    worker.started, worker.phase = time.monotonic(), "reference"
                    worker.pipe.send(worker.index)
            wait([worker.pipe for worker in workers], POLL_S)
            for position, worker in enumerate(workers):
                died = _receive(worker, outcomes)
                late = worker.index is not None and time.monotonic() - worker.started > limit_s
                if not died and not late:
                    continue
                if worker.index is not None:
                    case = cases[worker.index]
                    what = "takes too long" if late else "kills the process"
                    verdict = NOT_RUN if worker.phase == "reference" else FAILED
                    outcomes[worker.index] = Outcome(case.category, case.name, verdict, what)
                _stop(worker)
                workers[position] = _start(cases)
    finally:
        for worker in workers:
            _stop(worker)
    return [outcomes[index] for index in range(len(cases))]


def _start(cases: Sequence[Case]) -> _Worker:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(cases, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()


def _receive(worker: _Worker, outcomes: dict[int, Outcome]) -> bool:
    """Takes what the worker says; True where it has died."""
    try:
        while worker.pipe.poll():
            message = worker.pipe.recv()
            if isinstance(message, Outcome):
                assert worker.index is not None
                outcomes[worker.index] = message
                worker.index = None
            else:
                worker.phase = message
    except (EOFError, ConnectionError):
        return True
    return False


def _work(cases: Sequence[Case], pipe: Connection) -> None:
    # The runtime prints to the process's own stderr, past Python.
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    while True:
        try:
            index = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(cases[index], pipe.send))
