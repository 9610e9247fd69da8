"""Placers that are asked by name, and what they answer: a plug-in's may be anything."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import Placer, PlacerAnswer, PlacerRequest
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text


def placer_of(text: str) -> Placer:
    """The registered placer that a text such as `local_search{restarts=4}` stands for.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names, MCM-X007 for what is no
            placer.
    """
    return cast("Placer", PLACERS.made(spec_text.parse_one(text)))


def placer_answer(
    text: str,
    placer: Placer,
    problem: StepProblem,
    box: Box,
    evaluator: StepEvaluator,
    request: PlacerRequest,
    progress: Callable[[str], None],
) -> PlacerAnswer:
    """Run a placer, and check the form of its result; the placement itself may be invalid.

    Args:
        text: its text form.
        placer: the placer.
        problem: as in `Placer.place`, like what follows.
        box: the devices.
        evaluator: of the problem in the box.
        request: what it is asked.
        progress: called with what happens next.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with PLACERS.at_work(text.partition("{")[0].strip()):
        return _in_form(placer.place(problem, box, evaluator, request, progress))


def _in_form(found: object) -> PlacerAnswer:
    """An answer whose fields are what their types say.

    Raises:
        TypeError: for a field of another type.
        ValueError: for a number that cannot be.
    """
    if not isinstance(found, PlacerAnswer):
        raise TypeError(f"it gave a {type(found).__name__}, not a PlacerAnswer")
    given = cast("Any", found)
    row = np.asarray(given.device_of)
    # An empty list of a step without ops has no type of its own.
    if row.size and row.dtype.kind not in "iu":
        raise TypeError(f"device_of holds {row.dtype}, no whole numbers")
    inside = np.iinfo(np.int32)
    if not isinstance(given.method, str):
        raise TypeError(f"method is a {type(given.method).__name__}, no text")
    return PlacerAnswer(
        # Devices that there are none of stay so.
        np.clip(row, inside.min, inside.max).astype(np.int32),
        given.method,
        _count("evaluations", given.evaluations),
        tuple((_count("history", n), _score(score)) for n, score in given.history),
        tuple((str(name), float(value)) for name, value in given.figures),
    )


def _score(given: Any) -> float:
    score = float(given)
    if not math.isfinite(score):
        raise ValueError(f"history has the score {score}")
    return score


def _count(what: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, numbers.Integral):
        raise TypeError(f"{what} has a {type(given).__name__} where a whole number should be")
    if given < 0:
        raise ValueError(f"{what} has {given}, less than none")
    return int(given)
