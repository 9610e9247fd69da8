"""Work that runs apart: on processes of this machine, or on a cluster, and survives their loss."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.interruption import deaf_children
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.orphans import end_with_parent

CONNECT_S = 10
"""How long a scheduler is waited for."""


def dask_client(scheduler: str) -> Any:
    """A client of a scheduler.

    Args:
        scheduler: its address, such as `tcp://10.0.0.1:8786`.

    Raises:
        CompileError: MCM-L010 where there is no scheduler, MCM-L012 without Dask.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise CompileError.of(
            "MCM-L012",
            "a scheduler needs Dask, which is not installed",
            at=quote(scheduler),
            hint="pip install 'mcm-compiler[cluster]', or leave --scheduler out",
        ) from error
    try:
        return Client(scheduler, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise CompileError.of(
            "MCM-L010",
            f"the scheduler cannot be reached: {quote(str(error))}",
            at=quote(scheduler),
            hint="start one with `dask scheduler`, and give its tcp:// address",
        ) from error


MAX_LOSSES = 4
"""Times that a job is started again before it is held to be what ends its workers."""

CLOSE_S = 1.0
"""How long the client of a scheduler that is gone is waited for."""

PROBE_S = 5.0
"""How often a scheduler is asked whether it is there while a result is waited for, and how long it
has for an answer."""


class LostJobError(CompileError):
    """MCM-L010 for a job that ends each worker that it is given to."""


class Jobs:
    """Pure functions on an executor; what a worker takes with it when it dies is started again.

    Args:
        open_executor: makes an executor; called again where one is broken permanently, as a pool of
            processes is when one of them dies.
        alive: says whether whoever hands out the jobs still answers; None where that is this
            process. Asked while a result is waited for.
    """

    def __init__(
        self, open_executor: Callable[[], Executor], alive: Callable[[], bool] | None = None
    ) -> None:
        self._open = open_executor
        self._alive = alive
        self._executor = open_executor()
        self._running: dict[int, tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = {}
        self._losses: dict[int, int] = {}
        self._tickets = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> int:
        """Starts a job, and gives the ticket that its result is fetched with."""
        ticket, self._tickets = self._tickets, self._tickets + 1
        self._start(ticket, function, arguments)
        return ticket

    def done(self, ticket: int) -> bool:
        """Return whether `result` would return at once, or start a lost job again."""
        return self._running[ticket][0].done()

    def result(self, ticket: int) -> Any:
        """Waits for a job and forgets it.

        Raises:
            CompileError: MCM-L010 where workers die repeatedly, or nobody hands out jobs.
            Exception: what the job raised.
        """
        while True:
            future, function, arguments = self._running[ticket]
            try:
                result = self._waited(future)
            except CompileError:
                raise
            except Exception as error:
                if not _is_loss(error):
                    raise
                self._count_loss(ticket, error)
                if isinstance(error, BrokenExecutor):
                    self._reopen()
                else:
                    self._start(ticket, function, arguments)
            else:
                del self._running[ticket]
                return result

    def _waited(self, future: Future[Any]) -> Any:
        if self._alive is None:
            return future.result()
        while True:
            done, _ = wait([future], timeout=PROBE_S)
            # A job that was lost with its scheduler is not worth a new start.
            if (not done or future.cancelled()) and not self._alive():
                raise _gone()
            if done:
                return future.result()

    def close(self) -> None:
        """Ends the executor; jobs that have not begun never do."""
        if self._alive is not None and not self._alive():
            return  # nobody would answer
        for future, _, _ in self._running.values():
            future.cancel()
        # Not `cancel_futures`, which Dask's executor does not know.
        self._executor.shutdown(wait=True)

    def _start(self, ticket: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if self._alive is not None and not self._alive():
            raise _gone()
        try:
            future = self._executor.submit(function, *arguments)
        except BrokenExecutor:
            self._reopen()
            future = self._executor.submit(function, *arguments)
        self._running[ticket] = (future, function, arguments)

    def _reopen(self) -> None:
        self._executor.shutdown(wait=False)
        self._executor = self._open()
        for ticket, (future, function, arguments) in self._running.items():
            if not future.done() or future.cancelled() or future.exception() is not None:
                again = self._executor.submit(function, *arguments)
                self._running[ticket] = (again, function, arguments)

    def _count_loss(self, ticket: int, error: Exception) -> None:
        self._losses[ticket] = self._losses.get(ticket, 0) + 1
        if self._losses[ticket] > MAX_LOSSES:
            message = f"a job lost its worker {self._losses[ticket]} times, last by "
            message += type(error).__name__
            raise LostJobError(Diagnostic("MCM-L010", message, "the workers")) from error


class InlineExecutor(Executor):
    """Runs each job at once, in the process that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As `Executor.submit`, but returns when the job is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_jobs(workers: int, scheduler: str | None = None) -> Generator[Jobs]:
    """Jobs on processes of this machine, or on a Dask cluster.

    Args:
        workers: processes; 0 to run everything in this one.
        scheduler: address of a Dask scheduler, such as `tcp://10.0.0.1:8786`, or None.

    Raises:
        CompileError: MCM-L010 where there is no scheduler, MCM-L012 without Dask.
    """
    with ExitStack() as stack:
        if scheduler is not None:
            jobs = Jobs(*_dask_executors(scheduler, stack))
        elif workers:
            jobs = Jobs(lambda: _local_pool(workers))
        else:
            jobs = Jobs(InlineExecutor)
        try:
            yield jobs
        finally:
            jobs.close()


class _DeafPool(ProcessPoolExecutor):
    """Processes that nothing ends but the one that started them; a pool starts them on demand."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As `Executor.submit`."""
        with deaf_children():
            return super().submit(fn, *args, **kwargs)


def _local_pool(workers: int) -> ProcessPoolExecutor:
    use_one_thread()
    # Threads of JAX and numba do not survive a fork.
    context = multiprocessing.get_context("spawn")
    return _DeafPool(workers, context, _begin_worker, (os.getpid(),))


def _begin_worker(parent: int) -> None:
    end_with_parent(parent)


def _gone() -> CompileError:
    return CompileError.of(
        "MCM-L010",
        f"the scheduler does not answer any more, for {PROBE_S:.0f} s at least",
        at="the workers",
        hint="start it again, and go on with --resume",
    )


def _dask_executors(
    scheduler: str, stack: ExitStack
) -> tuple[Callable[[], Executor], Callable[[], bool]]:
    """Maker of executors, and a check that the scheduler answers."""
    client = dask_client(scheduler)

    def alive() -> bool:
        try:
            # A socket to a host that sleeps or has gone stays open: only an answer tells.
            client.sync(client.scheduler.identity, callback_timeout=PROBE_S)
        except Exception:  # Dask, Tornado and asyncio each have their own
            return False
        return True

    def close() -> None:
        if alive():
            client.close()
        else:
            # Without a word to the scheduler, for whose answer it would wait.
            with suppress(Exception):
                client.close(timeout=CLOSE_S)

    stack.callback(close)
    return lambda: client.get_executor(pure=False), alive


def _is_loss(error: Exception) -> bool:
    """Return whether a job failed because its worker did."""
    if isinstance(error, (BrokenExecutor, CancelledError, ConnectionError)):
        return True
    # Of Dask, which may not be installed: KilledWorker, CommClosedError and their kin.
    return type(error).__module__.startswith("distributed.")
