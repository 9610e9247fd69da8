"""A process without threads that forks children for one that must not fork.

It is started afresh (`python -m`) when the first child is asked for, which takes some tenths of a
second, and lives as long as the process that started it. Requests come over a socket, with the end
of a pipe on which the child answers.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

from mcm_compiler.processes.bounded_child import ChildDiedError, read_all, serve
from mcm_compiler.processes.lazy_libraries import load_lazily
from mcm_compiler.processes.orphans import end_with_parent

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
    """As `bounded_child.answer_of_child`, in a child of a process without threads.

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
