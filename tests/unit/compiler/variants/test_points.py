"""Several forked children at once."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import pytest

from mcm_compiler.processes.bounded_child import answers_of_children

pytestmark = pytest.mark.forks


def test_every_child_answers_with_what_its_work_returns() -> None:
    works = [partial(bytes, [number] * 100_000) for number in range(7)]
    found = dict(answers_of_children(works, 3))
    assert found == {number: bytes([number] * 100_000) for number in range(7)}


def test_children_that_die_tell_how() -> None:
    def killed() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    def failing() -> bytes:
        raise ValueError

    assert dict(answers_of_children([killed, failing, lambda: b"fine"], 1)) == {
        0: -signal.SIGKILL,
        1: 1,
        2: b"fine",
    }


def test_children_end_with_the_generator() -> None:
    def sleeping() -> bytes:
        time.sleep(600)
        return b""

    running = answers_of_children([lambda: b"first", sleeping], 2)
    assert next(running) == (0, b"first")
    running.close()  # waits for the children, and would wait for ten minutes
