"""A server of one page, for browsers of this machine alone.

It listens at the loopback address and answers three paths: the page itself, byte by byte the file
that `mcmc report --html` writes, with its policy. A frame around it, which loads it again when it
has changed; and what the frame asks for that. No path is looked up in a file system. A request has
to name this machine as its host, so that no page of another site can reach the server under a name
of its own (DNS rebinding). Other sites can neither embed nor read what it answers.

The page's own policy allows no script but its own and no requests, and stays as it is. The script
that asks the server stands in a document around it, with a policy of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from socketserver import TCPServer
from typing import Any, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.page.contents import SCRIPT, STYLE, asset, content_security_policy, source_hash
from mcm_compiler.page.folder_page import checked_folder_page
from mcm_compiler.processes.staging import MANIFEST
from mcm_compiler.text.units import printable

HOST = "127.0.0.1"
FRAME, PAGE, STATE = "/", "/report.html", "/state"
"""The paths that are answered."""

WAKE_S = 0.2
"""Time after which a server that waits looks whether it is to end."""

PATIENCE_S = 10.0
"""Time that a client may take to say what it wants."""

_OWN_NAMES = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Sent with every answer."""


class PageServer(ThreadingHTTPServer):
    """The server of a watched page; it listens when it is made.

    Args:
        page: to serve.
        port: to listen at; 0 takes a free one.
        tell: called with what a request failed by, where that is a fault of this program.

    Raises:
        CompileError: MCM-U090 if it cannot listen at the port.
    """

    daemon_threads = True
    timeout = WAKE_S

    def __init__(self, page: WatchedPage, port: int, tell: Callable[[Exception], object]) -> None:
        self.page = page
        self._tell = tell
        try:
            super().__init__((HOST, port), _Answer)
        except OSError as error:
            raise CompileError.of(
                "MCM-U090",
                f"nothing can be served at port {port}: {error.strerror or error}",
                at="option --port",
            ) from error

    def server_bind(self) -> None:
        """Binds without asking for the name of the address, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def address(self) -> str:
        """Where the page is to be seen."""
        return f"http://{HOST}:{self.server_port}{FRAME}"

    def serve_until(self, ended: Callable[[], bool]) -> None:
        """Answers requests, each in a thread of its own, until `ended` says so."""
        while not ended():
            self.handle_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report faults of this program; clients that went away are none."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._tell(error)


class _Answer(BaseHTTPRequestHandler):
    """The answer to one request."""

    timeout = PATIENCE_S

    def parse_request(self) -> bool:
        """Reads the head of a request; whatever does more than ask for something is refused."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return False
        return True

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or _OWN_NAMES.fullmatch(hosts[0]) is None:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.path == FRAME:
            policy = {"Content-Security-Policy": frame_policy()}
            self._send(HTTPStatus.OK, "text/html", frame_bytes(), policy)
        elif self.path == PAGE:
            policy = content_security_policy(asset(SCRIPT), asset(STYLE))
            allowed = f"{policy}; frame-ancestors 'self'"
            content = self._page().content
            self._send(HTTPStatus.OK, "text/html", content, {"Content-Security-Policy": allowed})
        elif self.path == STATE:
            shown = self._page()
            problem = None if shown.problem is None else printable(shown.problem)
            state = json.dumps({"version": shown.version, "problem": problem})
            self._send(HTTPStatus.OK, "application/json", state.encode())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _page(self) -> ShownPage:
        return cast("PageServer", self.server).page.look()

    def _send(
        self, status: int, kind: str, content: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        further = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in (_HEADERS | further | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuses a request in plain text that repeats nothing of it."""
        self.close_connection = True
        self.request_version = self.protocol_version  # what cannot be read is no HTTP/0.9, either
        allow = {"Allow": "GET"} if code == HTTPStatus.METHOD_NOT_ALLOWED else {}
        self._send(code, "text/plain", f"{int(code)} {HTTPStatus(code).phrase}\n".encode(), allow)

    def version_string(self) -> str:
        """Version string of the server."""
        return "mcmc"

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the terminal is for what the user asked for."""


FRAME_SCRIPT, FRAME_STYLE, FRAME_MARKUP = "frame.js", "frame.css", "frame.html"
"""Files of the folder `assets`; the last has places for the first two."""


@cache
def frame_bytes() -> bytes:
    """The document."""
    text = _asset(FRAME_MARKUP)
    for place, name in (("{style}", FRAME_STYLE), ("{script}", FRAME_SCRIPT)):
        text = text.replace(place, _asset(name))
    return text.encode()


def frame_policy() -> str:
    """Policy of the document: run this script, ask this server, show its page, and no more."""
    return (
        f"default-src 'none'; script-src '{source_hash(_asset(FRAME_SCRIPT))}'; "
        f"style-src '{source_hash(_asset(FRAME_STYLE))}'; connect-src 'self'; frame-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _asset(name: str) -> str:
    return (files("mcm_compiler.viewing") / "assets" / name).read_text(encoding="utf-8")


Stamp = tuple[int, ...]


@dataclass(frozen=True)
class ShownPage:
    """Shown state of a folder.

    Attributes:
        content: the page, as `mcmc report --html` writes it.
        version: another one for another content.
        problem: why the folder cannot be read by now, or None; the content is the last one then.
        note: what was not checked, or None.
    """

    content: bytes
    version: str
    problem: str | None = None
    note: Diagnostic | None = None


class WatchedPage:
    """The page of a folder that others may replace at any time. May be used by many threads.

    A compile writes a folder aside and renames it, so that a new manifest means a new folder.

    Args:
        folder: an output folder.

    Raises:
        CompileError: as `checked_folder_page`, if it is none at first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp = _stamp_of(folder)
        self._shown = _made(folder)

    def look(self) -> ShownPage:
        """The page as it is now; makes it again where the folder is another one."""
        with self._lock:
            stamp = _stamp_of(self._folder)
            if stamp != self._stamp:
                self._look_again(stamp)
            return self._shown

    def _look_again(self, stamp: Stamp | None) -> None:
        try:
            shown = _made(self._folder)
        except CompileError as error:
            if _stamp_of(self._folder) != stamp:
                return  # it was replaced amid reading: the next look finds it whole
            found = error.diagnostics[0]
            before = self._shown
            problem = f"{found.code}: {found.message}"
            shown = ShownPage(before.content, before.version, problem, before.note)
        self._stamp, self._shown = stamp, shown


def _made(folder: Path) -> ShownPage:
    content, note = checked_folder_page(folder)
    return ShownPage(content, hashlib.sha256(content).hexdigest(), None, note)


def _stamp_of(folder: Path) -> Stamp | None:
    """Stamp of a manifest that differs from the next one's, copied times too; None without."""
    try:
        told = (folder / MANIFEST).stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns
