"""Placers that are asked by name: what fails, or answers in another form, is named."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.placers import PlacerAnswer
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.registry import PLACERS
from tests.generators.placed_models import place_small


@dataclass(frozen=True)
class Odd:
    """Answers what it is told to."""

    name: ClassVar[str] = "another name than it is registered by"
    summary: ClassVar[str] = "anything"
    answer: ClassVar[Callable[[Any, Any], Any]]

    def place(self, request: Any) -> Any:
        return type(self).answer(request.problem, request)


@pytest.fixture(autouse=True)
def odd() -> Generator[None]:
    PLACERS.add("test_odd", Odd, "odd.py")
    yield
    PLACERS.remove("test_odd")


def zeros(problem: Any) -> Any:
    return np.zeros(problem.num_ops, np.int32)


def _raise(error: BaseException) -> Any:
    raise error


def refused(answer: Callable[[Any, Any], Any], placer: str) -> Diagnostic:
    Odd.answer = staticmethod(answer)
    with pytest.raises(CompileError) as caught:
        place_small(placer=placer)
    (found,) = caught.value.diagnostics
    return found


ODD_ANSWERS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "raises": (lambda p, _: _raise(RuntimeError("lost")), "RuntimeError: lost"),
    "server": (lambda p, _: _raise(ConnectionResetError(104, "reset")), "reset"),
    "nothing": (lambda p, _: None, "it gave a NoneType, not a PlacerAnswer"),
    "halves": (lambda p, _: PlacerAnswer(zeros(p) + 0.5, "x", 1), "device_of holds float64"),
    "truths": (lambda p, _: PlacerAnswer(zeros(p) == 0, "x", 1), "device_of holds bool"),
    "method": (lambda p, _: PlacerAnswer(zeros(p), None, 1), "method is a NoneType"),
    "negative": (lambda p, _: PlacerAnswer(zeros(p), "x", -3), "evaluations is -3"),
    "nan": (lambda p, _: PlacerAnswer(zeros(p), "x", np.nan), "evaluations is a float"),
    "history": (lambda p, _: PlacerAnswer(zeros(p), "x", 1, history=((0.5, 1.0),)), "history"),
    "score": (lambda p, _: PlacerAnswer(zeros(p), "x", 1, history=((1, np.nan),)), "score nan"),
    "figures": (lambda p, _: PlacerAnswer(zeros(p), "x", 1, figures=(("a", "b"),)), "'b'"),
}


@pytest.mark.parametrize("placer", ["test_odd", "portfolio{members=single;test_odd}"])
@pytest.mark.parametrize("kind", ODD_ANSWERS)
def test_what_is_no_answer_is_told_with_who_gave_it(kind: str, placer: str) -> None:
    answer, told = ODD_ANSWERS[kind]
    found = refused(answer, placer)
    assert (found.code, found.at) == ("MCM-X007", "odd.py")
    assert found.message.startswith("placer 'test_odd' failed: ")
    assert told in found.message


@pytest.mark.parametrize("device", [9, -1, 2**32 + 1])
def test_devices_that_there_are_none_of_are_told_with_who_gave_them(device: int) -> None:
    def answer(problem: Any, _: Any) -> PlacerAnswer:
        return PlacerAnswer(zeros(problem).astype(np.int64) + device, "x", 1)

    alone = refused(answer, "test_odd")
    assert (alone.code, alone.at) == ("MCM-D075", "placer 'test_odd'")
    member = refused(answer, "portfolio{members=single;test_odd}")
    assert (member.code, member.at) == ("MCM-X007", "odd.py")


def test_a_member_that_changes_its_start_changes_nobody_elses() -> None:
    def answer(problem: Any, request: Any) -> PlacerAnswer:
        request.start[:] = 1 - request.start  # on devices that ops may not run on
        return PlacerAnswer(zeros(problem), "none", 1)

    Odd.answer = staticmethod(answer)
    alone = place_small(placer="portfolio{members=single}")
    found = place_small(placer="portfolio{members=single;test_odd}")
    assert found.seconds <= alone.seconds
