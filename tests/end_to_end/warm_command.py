"""The command `mcmc` without the time of its imports, for tests that call it often.

A server imports what a compile and a check import, and forks a child for each call, which runs what
the console script runs: with the arguments, folder, variables, limits and streams of the caller,
which ends as the child did. Run as a program this module is the server; the caller is a script that
needs next to nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import NoReturn

from mcm_compiler.processes.orphans import end_with_parent

LENGTH = struct.Struct("<Q")
CODE = struct.Struct("<i")
_STREAMS = 3

# `socket`, `json` and `struct` take longer to import than all else that the caller does.
_CALLER = """#!{python} -IS
import _socket, marshal, os, resource, sys
limits = [(name, resource.getrlimit(getattr(resource, name)))
          for name in dir(resource) if name.startswith("RLIMIT_")]
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({address!r})
request = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ), limits))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection.sendmsg([len(request).to_bytes(8, "little")],
                   [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
connection.sendall(request)
answer = connection.recv(4)
connection.close()
if not answer:
    sys.exit("the server of the tests has died")
code = int.from_bytes(answer, "little", signed=True)
if code < 0:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), -code)
sys.exit(code)
"""

_FIRST = (("compile", "zoo:bert-tiny", "--target", "mcm4", "-o", "out"), ("check", "out"))
"""Runs whose imports all later ones share."""


@contextlib.contextmanager
def warm_command() -> Generator[Path]:
    """The file `mcmc` in a folder of its own, as long as the context lasts."""
    folder = Path(tempfile.mkdtemp(prefix="mcm-warm-"))
    address = folder / "socket"
    caller = folder / "bin" / "mcmc"
    caller.parent.mkdir()
    caller.write_text(_CALLER.format(python=sys.executable, address=str(address)), "utf-8")
    caller.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, str(address), str(os.getpid())],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n", "the server of warm commands did not begin"
        yield caller
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def serve(address: str, parent: int) -> NoReturn:
    """The server: a child for each call, until it is told to end, or the process `parent` ends."""
    end_with_parent(parent)
    for name in _names_of_imports():
        # Some are only there while others are imported.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Otherwise each child would begin with a collection, which copies all that it shares.
    gc.collect()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            # Children that have answered are waited for, so that their CPU time counts.
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _answer(connection)


def _names_of_imports() -> list[str]:
    """Modules that the first runs load; each runs in a child, which leaves no trace here."""
    found: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="mcm-warm-") as folder:
        for words in _FIRST:
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.chdir(folder)
                null = os.open(os.devnull, os.O_RDWR)
                for stream in range(_STREAMS):
                    os.dup2(null, stream)
                os.environ["MCMC_SUPERVISE"] = "0"
                with contextlib.suppress(SystemExit):
                    _run(list(words))
                with os.fdopen(writing, "w", encoding="utf-8") as names:
                    names.write("\n".join(sys.modules))
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading, encoding="utf-8") as names:
                found.update(names.read().split("\n"))
            os.wait()
    return sorted(found - {"__main__", ""})


def _answer(connection: socket.socket) -> NoReturn:
    """Reads a call, runs it in a child of its own, and sends the exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, _STREAMS)
    (length,) = LENGTH.unpack(head)
    with connection.makefile("rb") as stream:
        arguments, folder, variables, limits = marshal.loads(stream.read(length))
    child = os.fork()
    if child == 0:
        connection.close()
        for stream, given in enumerate(streams):
            os.dup2(given, stream)
            os.close(given)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        tempfile.tempdir = None  # may be another by these variables
        for name, (soft, hard) in limits:
            resource.setrlimit(getattr(resource, name), (soft, hard))
        _leave(arguments)
    _, status = os.waitpid(child, 0)
    connection.sendall(CODE.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _leave(arguments: list[str]) -> NoReturn:
    """Runs a command and exits as its process would."""
    code: int | str | None = 1
    try:
        _run(arguments)
        code = 0
    except SystemExit as leaving:
        code = leaving.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _forking(_method: str | None = None) -> BaseContext:
    return multiprocessing.get_context("fork")


def _run(arguments: list[str]) -> None:
    from mcm_compiler.ci import processes
    from mcm_compiler.console import main

    # What works at once in processes of its own is warm, too; this one has no threads yet.
    processes.get_context = _forking
    sys.argv = ["mcmc", *arguments]
    main()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
