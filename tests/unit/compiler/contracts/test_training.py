"""Trainers that are asked by name: what fails, or answers in another form, is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcm_compiler.contracts.training import TrainingRequest, TrainingResult, trained_by
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import TRAINERS


class _Odd:
    name = summary = "odd"

    def __init__(self, answer: Callable[[Path], Any]) -> None:
        self._answer = answer

    def train(self, request: TrainingRequest, tell: Any) -> Any:
        request.folder.mkdir()
        (request.folder / "a").write_text("")
        return self._answer(request.folder)


def _trained(folder: Path, answer: Callable[[Path], Any]) -> TrainingResult:
    TRAINERS.add("test_odd", _Odd, "odd.py")
    try:
        return trained_by("test_odd", _Odd(answer), TrainingRequest(folder / "out"), lambda _: None)
    finally:
        TRAINERS.remove("test_odd")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda folder: None, "it gave a NoneType, not a TrainingResult"),
        (lambda folder: TrainingResult(folder / "b", 1), "is not there"),
        (lambda folder: TrainingResult(folder / "a", -1), "samples is -1"),
        (lambda folder: TrainingResult(folder / "a", 0.5), "samples is a float"),
        (lambda folder: TrainingResult(folder / "a", 1, {"x": float("nan")}), "score 'x' is nan"),
        (lambda folder: TrainingResult(folder / "a", 1, {"x": "y"}), "could not convert"),
        (lambda folder: TrainingResult(folder / "a", 1, [1]), "'list' object"),
    ],
)
def test_what_is_no_result_is_told_with_who_gave_it(
    tmp_path: Path, answer: Callable[[Path], Any], told: str
) -> None:
    with pytest.raises(CompileError) as caught:
        _trained(tmp_path, answer)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "odd.py")
    assert told in found.message


def test_a_result_is_handed_on(tmp_path: Path) -> None:
    found = _trained(tmp_path, lambda folder: TrainingResult(folder / "a", 3, {"x": 1}))
    assert (found.checkpoint.name, found.samples, found.scores) == ("a", 3, {"x": 1.0})
