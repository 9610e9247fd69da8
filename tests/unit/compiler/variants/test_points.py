"""Several forked children at once."""

from __future__ import annotations

import os
import resource
import signal
import time
from functools import partial

import pytest

from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.processes.bounded_child import answers_of_children
from mcm_compiler.results.points import PlacedPoint
from mcm_compiler.text.json_text import record_of
from mcm_compiler.variants.points import failed_point

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


@pytest.mark.parametrize("works", [1, 2, 7])
def test_children_answer_a_process_with_many_open_files(works: int) -> None:
    """Descriptors above 1,023, as where weights of many files are mapped."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the system allows few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] < 1100:
            taken.append(os.dup(taken[0]))
        found = dict(answers_of_children([lambda: b"fine"] * works, 3))
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found == dict.fromkeys(range(works), b"fine")


def test_a_point_that_failed_has_only_figures_that_every_point_has() -> None:
    """Where the target says nothing of energy and area, their keys are missing, and not null."""
    point = failed_point([Diagnostic("MCM-P004", "the weights do not fit")])
    assert [row["message"] for row in point["faults"]] == ["the weights do not fit"]
    assert not point.keys() & {"energy_j", "energy_delay_js", "package_mm2", "placement"}
    assert record_of(point, PlacedPoint, "point") == point
