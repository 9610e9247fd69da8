"""The child for work on untrusted models: an answer, or a word on how it died."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from mcm_compiler.ir.bounded_child import ChildDiedError, answer_of_child

GROWTH_BYTES = 1 << 28


def test_large_answers_come_whole():
    assert answer_of_child(lambda: b"ab" * (1 << 20), GROWTH_BYTES) == b"ab" * (1 << 20)


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
    [
        (crash, {}, "SIGSEGV"),
        (fail, {}, "exit status 1"),
        (sleep, {"wall_s": 0.2}, "no answer after 0 s"),
        (compute, {"cpu_s": 1}, "SIGXCPU"),
    ],
)
def test_children_that_give_no_answer(work, limits, how):
    with pytest.raises(ChildDiedError) as caught:
        answer_of_child(work, GROWTH_BYTES, **limits)
    assert str(caught.value) == how


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_memory_is_bounded():
    with pytest.raises(ChildDiedError):
        answer_of_child(lambda: b"x" * (GROWTH_BYTES * 4), GROWTH_BYTES)


def test_an_interrupt_takes_the_child_with_it(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    fork, children = os.fork, []

    def remember():
        children.append(fork())
        return children[-1]

    monkeypatch.setattr("mcm_compiler.ir.bounded_child.select.select", interrupt)
    monkeypatch.setattr("mcm_compiler.ir.bounded_child.os.fork", remember)
    with pytest.raises(KeyboardInterrupt):
        answer_of_child(sleep, GROWTH_BYTES)
    # Gone, and waited for: there may be children of other tests.
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)
