"""Work on an untrusted model in a forked child, with an end to its memory and its time.

A fork costs a few milliseconds, and the child sees the parent's objects without a copy. Where a
library has started threads, a process without threads forks instead. It is started afresh
(`python -m`) when the first child is asked for, which takes some tenths of a second, and lives as
long as the process that started it. Requests come over a socket, with the end of a pipe on which
the child answers.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import NoReturn

from mcm_compiler.processes.interruption import heeded
from mcm_compiler.processes.lazy_libraries import load_lazily
from mcm_compiler.processes.orphans import end_with_parent

THREADED_LIBRARIES = ("jaxlib", "distributed", "torch", "tensorflow")
"""Once loaded they have threads; a lock that one of them holds is never freed in a fork."""


def can_fork() -> bool:
    """Return whether this system has children of this kind."""
    return sys.platform != "win32"


def answer_of_child(
    work: Callable[[], bytes], growth_bytes: int, cpu_s: int | None = None
) -> bytes:
    """Result of `work` in a child that can write nothing to the terminal.

    The limits are on memory and on computing; a child that waits is waited for, so that what is
    learnt does not depend on the clock. Where this process may not fork (`may_fork`), the child is
    one of a process that was started for that (`answer_of_server`), and `work` has to be picklable.

    Args:
        work: its exceptions end the child.
        growth_bytes: memory that the child may take beyond what it starts with; kept on Linux.
        cpu_s: seconds of computing after which the child is ended.

    Raises:
        ChildDiedError: if there is no answer.
    """
    if not may_fork():
        answer = answer_of_server(work, growth_bytes, cpu_s)
    else:
        ((_, answer),) = answers_of_children([work], 1, growth_bytes, cpu_s)
    if isinstance(answer, int):
        how = signal.Signals(-answer).name if answer < 0 else f"exit status {answer}"
        raise ChildDiedError(how)
    return answer


def may_fork() -> bool:
    """Return whether no library here is known to have threads that a fork would break."""
    return not any(name in sys.modules for name in THREADED_LIBRARIES)


def answers_of_children(
    works: Sequence[Callable[[], bytes]],
    at_once: int,
    growth_bytes: int = 1 << 50,
    cpu_s: int | None = None,
) -> Generator[tuple[int, bytes | int]]:
    """Runs each piece of work in a child that can write nothing to the terminal.

    Children end with this process, and with the generator.

    Args:
        works: an exception ends the child.
        at_once: children that run at the same time.
        growth_bytes: as in `answer_of_child`.
        cpu_s: as there.

    Yields:
        `(index, answer)` as they come; instead of an answer the exit code of a child that died
        without one, negative for a signal.
    """
    waiting = deque(range(len(works)))
    running: dict[int, tuple[int, int, list[bytes]]] = {}
    parent = os.getpid()
    # `select.select` takes no descriptor above 1,023, and a process with mapped files has many.
    answering = selectors.DefaultSelector()
    try:
        while waiting or running:
            while waiting and len(running) < max(at_once, 1):
                index = waiting.popleft()
                reading, writing = os.pipe()
                child = os.fork()
                if child == 0:
                    for one in (reading, *running):
                        os.close(one)
                    serve(works[index], writing, growth_bytes, cpu_s, parent)
                os.close(writing)
                running[reading] = (index, child, [])
                answering.register(reading, selectors.EVENT_READ)
            for key, _ in answering.select():
                reading = key.fd
                index, child, chunks = running[reading]
                if chunk := os.read(reading, _CHUNK_BYTES):
                    chunks.append(chunk)
                    continue
                answering.unregister(reading)
                del running[reading]
                os.close(reading)
                _, status = os.waitpid(child, 0)
                code = os.waitstatus_to_exitcode(status)
                yield index, b"".join(chunks) if code == 0 else code
    finally:
        answering.close()
        for reading, (_, child, _) in running.items():
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


_CHUNK_BYTES = 1 << 20
_STATM = Path("/proc/self/statm")


class ChildDiedError(Exception):
    """The child ended without an answer; the text says how, such as `SIGSEGV`."""


def read_all(reading: int) -> bytes:
    """Everything up to the end of a pipe."""
    chunks: list[bytes] = []
    while chunk := os.read(reading, _CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)


def serve(
    work: Callable[[], bytes], writing: int, growth_bytes: int, cpu_s: int | None, parent: int
) -> NoReturn:
    """The child: answers on `writing` and ends, without any of the parent's clean-up.

    Args:
        work: as in `answer_of_child`.
        writing: the end of a pipe.
        growth_bytes: as there.
        cpu_s: as there.
        parent: the process that forked, with which this one ends.
    """
    status = 1
    try:
        # What a collection would end here may wait for threads that this process does not have,
        # such as those of a session of onnxruntime. First of all, as imports collect, too.
        gc.disable()
        # A crash is an answer; its trace is no text of this program.
        faulthandler.disable()
        end_with_parent(parent)
        import resource

        # It has nothing to clean up; native code would not even get to that.
        for number in heeded():
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if cpu_s is not None:
            _lower_limit(resource.RLIMIT_CPU, cpu_s)
        if sys.platform == "linux":
            _lower_limit(resource.RLIMIT_AS, held_bytes() + growth_bytes)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        # A notebook or a test has put something else in their place.
        sys.stdout = sys.stderr = os.fdopen(null, "w", encoding="utf-8")
        answer = work()
        with os.fdopen(writing, "wb") as stream:
            stream.write(answer)
        status = 0
    finally:
        # Not even a signal gets past it.
        os._exit(status)


def held_bytes() -> int:
    """Address space of this process on Linux."""
    pages = _STATM.read_text(encoding="ascii").split()[0]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _lower_limit(which: int, wanted: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    known = [hard] if hard != resource.RLIM_INFINITY else []
    resource.setrlimit(which, (min([wanted, *known]), hard))


_LENGTH = struct.Struct("<Q")
_CODE = struct.Struct("<i")


class _Server:
    """The other process, and the socket to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.socket, theirs = socket.socketpair()
        nothing = subprocess.DEVNULL
        try:
            # -P: as for a console script, the working directory is not for imports.
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), str(self.owner)],
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                pass_fds=(theirs.fileno(),),
            )
        except OSError:
            self.socket.close()
            raise
        finally:
            theirs.close()

    def answer(self, request: bytes) -> bytes | int:
        """Hands a request over, and waits for the child's answer, or for its exit code."""
        reading, writing = os.pipe()
        try:
            try:
                socket.send_fds(self.socket, [_LENGTH.pack(len(request))], [writing])
            finally:
                os.close(writing)
            self.socket.sendall(request)
            answer = read_all(reading)
            (code,) = _CODE.unpack(_received(self.socket, _CODE.size))
        finally:
            os.close(reading)
        return code or answer

    def end(self) -> None:
        """Ends the process, and its child with it."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


_server: _Server | None = None
_one_at_a_time = threading.Lock()


def answer_of_server(
    work: Callable[[], bytes], growth_bytes: int, cpu_s: int | None
) -> bytes | int:
    """As `answer_of_child`, in a child of a process without threads.

    It works in the folder that this process works in now.

    Args:
        work: picklable.
        growth_bytes: as there.
        cpu_s: as there.

    Returns:
        The answer, or the exit code of a child that died without one, negative for a signal.

    Raises:
        ChildDiedError: if the other process cannot be started, or dies.
    """
    global _server
    request = pickle.dumps((os.getcwd(), work, growth_bytes, cpu_s))
    with _one_at_a_time:
        try:
            if _server is None or _server.owner != os.getpid():
                _server = _Server()
            return _server.answer(request)
        except BaseException as error:
            # What it would answer next would be to this request.
            if _server is not None and _server.owner == os.getpid():
                _server.end()
            _server = None
            if isinstance(error, OSError):
                raise ChildDiedError("its server died") from error
            raise


def _received(connection: socket.socket, length: int) -> bytes:
    """This many bytes.

    Raises:
        ConnectionError: at the end of the connection.
    """
    data = bytearray()
    while len(data) < length:
        chunk = connection.recv(min(length - len(data), 1 << 20))
        if not chunk:
            raise ConnectionError("the other end has gone away")
        data += chunk
    return bytes(data)


def main(descriptor: int, parent: int) -> None:
    """The other process: a child for each request, until there is nobody to ask.

    Args:
        descriptor: of the socket.
        parent: process with which this one ends.
    """
    # Those of a terminal are the parent's to answer.
    for name in ("SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    end_with_parent(parent)
    load_lazily()
    with socket.socket(fileno=descriptor) as connection:
        while True:
            head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
            if not head:
                return
            head += _received(connection, _LENGTH.size - len(head))
            request = _received(connection, _LENGTH.unpack(head)[0])
            # It comes from the process that started this one, which is trusted.
            folder, work, growth_bytes, cpu_s = pickle.loads(request)  # noqa: S301
            del request
            (writing,) = descriptors
            own = os.getpid()
            child = os.fork()
            if child == 0:
                connection.close()
                os.chdir(folder)
                serve(work, writing, growth_bytes, cpu_s, own)
            os.close(writing)
            del work
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            connection.sendall(_CODE.pack(code))


if __name__ == "__main__":
    with contextlib.suppress(ConnectionError):
        main(int(sys.argv[1]), int(sys.argv[2]))
