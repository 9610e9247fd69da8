"""The child for work on untrusted models: an answer, or a word on how it died."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from mcm_compiler.processes import bounded_child
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child, may_fork

GROWTH_BYTES = 1 << 28


@pytest.mark.forks
def test_large_answers_come_whole():
    assert answer_of_child(lambda: b"ab" * (1 << 20), GROWTH_BYTES) == b"ab" * (1 << 20)


@pytest.mark.forks
def test_nothing_is_printed(capfd):
    def work():
        os.write(1, b"out")
        os.write(2, b"err")
        return b"done"

    assert answer_of_child(work, GROWTH_BYTES) == b"done"
    assert capfd.readouterr() == ("", "")


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def fail():
    raise ValueError


def sleep():
    time.sleep(60)
    return b""


def compute():
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "limits", "how"),
    [(crash, {}, "SIGSEGV"), (fail, {}, "exit status 1"), (compute, {"cpu_s": 1}, "SIGXCPU")],
)
@pytest.mark.forks
def test_children_that_give_no_answer(work, limits, how):
    with pytest.raises(ChildDiedError) as caught:
        answer_of_child(work, GROWTH_BYTES, **limits)
    assert str(caught.value) == how


class Cycle:
    """What cannot be ended in a fork, such as a session with threads."""

    def __init__(self):
        self.me = self
        self.owner = os.getpid()

    def __del__(self):
        if self.owner != os.getpid():
            time.sleep(600)


@pytest.mark.forks
def test_what_is_garbage_of_the_parent_is_not_ended_in_the_child():
    Cycle()

    def work():
        kept = [[i] for i in range(100_000)]  # enough for many collections
        return str(len(kept)).encode()

    assert answer_of_child(work, GROWTH_BYTES) == b"100000"
    gc.collect()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
@pytest.mark.forks
def test_memory_is_bounded():
    with pytest.raises(ChildDiedError):
        answer_of_child(lambda: b"x" * (GROWTH_BYTES * 4), GROWTH_BYTES)


@pytest.mark.forks
def test_an_interrupt_takes_the_child_with_it(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    fork, children = os.fork, []

    def remember():
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(
        "mcm_compiler.processes.bounded_child.selectors.DefaultSelector.select", interrupt
    )
    monkeypatch.setattr("mcm_compiler.processes.bounded_child.os.fork", remember)
    with pytest.raises(KeyboardInterrupt):
        answer_of_child(sleep, GROWTH_BYTES)
    # Gone, and waited for: there may be children of other tests.
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)


@pytest.fixture
def server(monkeypatch):
    """No fork of this process, as where JAX is loaded."""

    def refuse():
        raise AssertionError

    monkeypatch.setitem(sys.modules, "jaxlib", sys)
    monkeypatch.setattr("os.fork", refuse)
    assert not may_fork()
    yield
    if bounded_child._server is not None:
        bounded_child._server.end()
        bounded_child._server = None


@pytest.mark.usefixtures("server")
def test_where_libraries_have_threads_another_process_forks():
    text = "ab" * (1 << 20)
    assert answer_of_child(partial(str.encode, text), GROWTH_BYTES) == text.encode()
    first = bounded_child._server.process.pid
    deaths = {
        "SIGABRT": partial(os.abort),
        "exit status 1": partial(time.sleep, 0),
        "SIGXCPU": partial(sum, itertools.count()),
    }
    for how, work in deaths.items():
        with pytest.raises(ChildDiedError) as caught:
            answer_of_child(work, GROWTH_BYTES, 1)
        assert str(caught.value) == how
    with pytest.raises(ChildDiedError):
        answer_of_child(partial(bytes, GROWTH_BYTES * 4), GROWTH_BYTES)
    # One process serves all.
    assert answer_of_child(partial(bytes, 3), GROWTH_BYTES) == bytes(3)
    assert bounded_child._server.process.pid == first


@pytest.mark.usefixtures("server")
def test_a_server_that_died_is_started_again():
    assert answer_of_child(partial(bytes, 3), GROWTH_BYTES) == bytes(3)
    os.kill(bounded_child._server.process.pid, signal.SIGKILL)
    with pytest.raises(ChildDiedError, match="its server died"):
        answer_of_child(partial(bytes, 3), GROWTH_BYTES)
    assert answer_of_child(partial(bytes, 3), GROWTH_BYTES) == bytes(3)


@pytest.mark.usefixtures("server")
def test_an_interrupt_takes_the_server_with_it(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    assert answer_of_child(partial(bytes, 3), GROWTH_BYTES) == bytes(3)
    process = bounded_child._server.process
    monkeypatch.setattr(bounded_child, "read_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        answer_of_child(partial(time.sleep, 60), GROWTH_BYTES)
    assert process.returncode == -signal.SIGKILL


FORKLESS = """
import os
from pathlib import Path
import jax
jax.numpy.ones(3).block_until_ready()
def refuse():
    raise SystemExit("forked")
os.fork = refuse
import onnx
from mcm_compiler.ir.reading.importer import import_onnx
# The inference of onnx knows the first op, the symbolic one of onnxruntime the second.
onnx.save(onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> net (float[2,4] x)'
    '=> (float[M,N] y) { h = Relu(x) g = com.microsoft.FastGelu(h) y = Exp(g) }'
), "net.onnx")
model, notes = import_onnx(Path("net.onnx"))
print([list(value.shape) for node in model.graph for value in node.outputs])
print([note.message for note in notes])
"""


def test_no_fork_follows_jax(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORKLESS], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    shapes, notes = done.stdout.splitlines()
    assert shapes == "[[2, 4], [2, 4], [2, 4]]"
    assert "from onnxruntime's symbolic inference" in notes


@pytest.mark.forks
def test_the_limits_leave_the_clock_alone():
    """A paused child gives the answer that it would have given."""

    def work():
        os.kill(os.getpid(), signal.SIGSTOP)
        return b"done"

    fork, children = os.fork, []

    def remember():
        child = fork()
        if child:
            children.append(child)
            helper = "import os, signal, sys, time; time.sleep(1.5);"
            helper += f"os.kill({child}, signal.SIGCONT)"
            children.append(subprocess.Popen([sys.executable, "-c", helper]))
        return child

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_child.os, "fork", remember)
        assert answer_of_child(work, GROWTH_BYTES, 1) == b"done"
    children[1].wait()
