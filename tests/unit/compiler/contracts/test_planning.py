"""Planners that are asked by name: what fails, or answers in another form, is named."""

from __future__ import annotations

from typing import Any

import pytest

from mcm_compiler.contracts.planning import PlanAnswer, PlanOptions, PlanRequest, planned_by
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import PLANNERS


class _Odd:
    name = summary = "odd"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def plan(self, *_: Any) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "it gave a NoneType, not a PlanAnswer"),
        (PlanAnswer(None, "m", 0), "it gave a NoneType, not a ParallelPlan"),  # pyright: ignore[reportArgumentType]
        (PlanAnswer(ParallelPlan("m", "", "t"), "m", -1), "evaluations is -1, less than none"),
        (BaseException("lost"), "BaseException: lost"),
    ],
    ids=["nothing", "no plan", "no count", "raises"],
)
def test_what_is_no_plan_is_told_with_who_gave_it(answer: Any, told: str) -> None:
    nothing: Any = None
    request = PlanRequest(model=nothing, name="m", target=nothing, options=PlanOptions())
    PLANNERS.add("test_odd", _Odd, "odd.py")
    try:
        with pytest.raises(CompileError) as caught:
            planned_by("test_odd{a=1}", _Odd(answer), request)
    finally:
        PLANNERS.remove("test_odd")
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "odd.py")
    assert told in found.message
