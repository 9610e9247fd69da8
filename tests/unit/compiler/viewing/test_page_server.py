"""What the server answers, over real sockets: to browsers of this machine, and to nobody else."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from contextlib import contextmanager

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.viewing.page_server import PageServer, WatchedPage


@contextmanager
def serving(folder):
    """A server of a folder in a thread, and the faults that it tells."""
    ended, faults = threading.Event(), []
    with PageServer(WatchedPage(folder), 0, faults.append) as made:
        thread = threading.Thread(target=made.serve_until, args=(ended.is_set,))
        thread.start()
        try:
            yield made, faults
        finally:
            ended.set()
            thread.join()


@pytest.fixture(scope="module")
def served(two_compiles):
    with serving(two_compiles[0]) as made:
        yield made


@pytest.fixture
def server(served):
    return served[0]


@pytest.fixture
def faults(served):
    return served[1]


def ask(server, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers with small names, and body of the answer to the bytes of a request."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as link:
        link.sendall(request)
        answer = b""
        while part := link.recv(1 << 16):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in pairs}, body


def get(server, path: str, host: str | None = None, method: str = "GET"):
    named = f"127.0.0.1:{server.server_port}" if host is None else host
    return ask(server, f"{method} {path} HTTP/1.1\r\nHost: {named}\r\n\r\n".encode("latin-1"))


def test_it_listens_at_this_machine_alone(server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_the_page_is_the_file_byte_by_byte_with_its_policy(server) -> None:
    status, headers, body = get(server, "/report.html")
    assert status == 200
    assert body == server.page.look().content
    policy = headers["content-security-policy"]
    head = policy.removesuffix("; frame-ancestors 'self'").replace("'", "&#39;")
    assert head != policy
    assert f'content="{head}"'.encode() in body
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_the_frame_has_a_policy_of_its_own(server) -> None:
    status, headers, body = get(server, "/")
    assert status == 200
    assert "connect-src 'self'; frame-src 'self'" in headers["content-security-policy"]
    assert b"<iframe" in body


def test_the_state_follows_the_folder(folder, two_compiles) -> None:
    with serving(folder) as (server, faults):
        first = json.loads(get(server, "/state")[2])
        assert first["problem"] is None
        shutil.rmtree(folder)
        gone = json.loads(get(server, "/state")[2])
        assert gone["version"] == first["version"]
        assert "MCM-A00" in gone["problem"]
        shutil.copytree(two_compiles[1], folder)
        anew = json.loads(get(server, "/state")[2])
    assert faults == []
    assert anew["version"] != first["version"]
    assert anew["problem"] is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:65535"])
def test_names_of_this_machine_are_answered(server, host) -> None:
    assert get(server, "/", host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1@evil.example",
        "127.0.0.1:80@evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]",
        "2130706433",
        "",
        "localhost:",
        "localhost:80 evil.example",
        "127.0.0.1, evil.example",
        "127.0.0.1:\u0661",
    ],
)
def test_other_names_are_not(server, host) -> None:
    for path in (b"/", b"/report.html", b"/state", b"/other"):
        request = b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host.encode())
        status, _, body = ask(server, request)
        assert (status, body) == (421, b"421 Misdirected Request\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n .evil.example\r\n\r\n",
    ],
)
def test_a_host_that_is_missing_doubled_or_folded_is_refused(server, request_bytes) -> None:
    assert ask(server, request_bytes)[0] == 421


@pytest.mark.parametrize(
    "path",
    [
        "/manifest.json",
        "/report.json",
        "/chip_00.onnx",
        "/../../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/report.html/../manifest.json",
        "//etc/passwd",
        "/report.html?x",
        "/report.html%00",
        "report.html",
        "http://127.0.0.1/report.html",
        "file:///etc/passwd",
        "/<script>alert(1)</script>",
        "/favicon.ico",
        "*",
    ],
)
def test_no_other_path_is_answered_and_nothing_of_it_repeated(server, path) -> None:
    status, headers, body = get(server, path)
    assert (status, body) == (404, b"404 Not Found\n")
    assert headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "HEAD"]
)
def test_there_is_no_other_method(server, method) -> None:
    status, headers, body = get(server, "/report.html", method=method)
    assert status == 405
    assert headers["allow"] == "GET"
    assert len(body) < 40


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        (b"GET / x y z\r\n\r\n", 400),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
    ],
)
def test_what_is_no_request_is_refused(server, request_bytes, status, faults) -> None:
    assert ask(server, request_bytes)[0] == status
    assert get(server, "/")[0] == 200
    assert faults == []


def test_a_client_that_says_nothing_holds_up_nobody(server, faults) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port)) as silent:
        silent.sendall(b"GET / HT")
        assert get(server, "/")[0] == 200
    with socket.create_connection(("127.0.0.1", server.server_port)) as rude:
        rude.sendall(b"GET /report.html HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert get(server, "/")[0] == 200
    assert faults == []


def test_faults_of_this_program_are_told(server, faults, monkeypatch) -> None:
    error = KeyError("ours")

    def broken():
        raise error

    monkeypatch.setattr(server.page, "look", broken)
    with pytest.raises((ConnectionError, IndexError)):
        get(server, "/report.html")
    assert faults.pop() is error
    assert get(server, "/")[0] == 200


def test_a_port_that_is_taken_is_told(server, faults) -> None:
    with pytest.raises(CompileError, match=f"MCM-U090.*port {server.server_port}"):
        PageServer(server.page, server.server_port, faults.append)
