"""Clients of Dask schedulers, whose workers may be on other machines."""

from __future__ import annotations

from typing import Any

from mcm_compiler.diagnostics import CompileError, quote

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
