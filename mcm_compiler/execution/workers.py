"""Work of a command on the workers of a Dask scheduler, which see its files."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.plugin_files import load_plugin, loaded_plugins
from mcm_compiler.processes.jobs import LostJobError, open_jobs

_R = TypeVar("_R")


def results_of_workers(
    scheduler: str, works: Sequence[Callable[[], _R]], lost: Callable[[int], _R] | None = None
) -> Generator[_R]:
    """Results of works on a Dask cluster whose workers see the files of this machine.

    Args:
        scheduler: address of the Dask scheduler.
        works: are pickled; each runs in the working folder, with the plug-ins that are loaded here.
        lost: the result of the work of this index, where it ends every worker.

    Yields:
        The results in the order of `works`, each as soon as those before it are there.

    Raises:
        CompileError: MCM-L015 where a worker does not see the working folder; as `open_jobs`.
    """
    with open_jobs(0, scheduler) as jobs:
        folder, plugins = os.getcwd(), loaded_plugins()
        tickets = [jobs.submit(_worked, folder, plugins, pickle.dumps(one)) for one in works]
        for index, ticket in enumerate(tickets):
            try:
                yield jobs.result(ticket)
            except LostJobError:
                if lost is None:
                    raise
                yield lost(index)


def _worked(folder: str, plugins: Sequence[Path], work: bytes) -> Any:
    """The result of a work, on a worker.

    Raises:
        CompileError: MCM-L015.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        raise other_files(f"a worker cannot open the folder: {error.strerror}", folder) from error
    for path in plugins:
        load_plugin(path)
    return pickle.loads(work)()  # noqa: S301 - whoever reaches a worker runs code there anyhow


def other_files(why: str, path: str) -> CompileError:
    """MCM-L015 for a worker that does not see the files of the command."""
    return CompileError.of("MCM-L015", why, at=quote(path))
