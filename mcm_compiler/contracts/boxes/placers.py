"""The contract of placers, which search for the placement with the shortest step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions, StepEvaluator
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.requests import SearchAnswer, SearchRequest, in_form
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text

Simulate = Callable[[StepProblem, StepConditions], StepEvaluator]
"""Makes evaluators: of a problem in the box of the request, under conditions."""


@dataclass(frozen=True, eq=False)
class PlacerRequest(SearchRequest):
    """Request to a placer: candidates are placements, and the time limit is wall time.

    Attributes:
        problem: the step.
        box: the devices.
        evaluator: of this problem in this box.
        simulate: makes evaluators under other conditions and of other problems, such as shorter
            versions of the same step; None if there are no others. Placements that those
            simulate count as evaluations. Those of coarse steps, whose ops represent many each,
            are reported as the figure `coarse evaluations`.
        order: of queues, as the placer's evaluator simulates them.
        start: a known placement to start from, or None.
    """

    problem: StepProblem
    box: Box
    evaluator: StepEvaluator
    simulate: Simulate | None = None
    order: QueueOrder = "fifo"
    start: Ints | None = None


@dataclass(frozen=True, eq=False)
class PlacerAnswer(SearchAnswer[Ints]):
    """Result of a placer: the best placement by score; it need not fit."""

    @property
    def device_of(self) -> Ints:
        """`[N]`, the device of each op."""
        return self.found


class Placer(Named, Protocol):
    """Places ops: a frozen dataclass whose fields are its options.

    Registered by name as kind `placer`. One with the class attribute
    `searches` set to True looks for the shortest step: where all placements are simulated and one
    is faster than its answer, that one is taken. Others follow a rule, and their answer stands.
    """

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Searches for a placement that keeps to `allowed` and `together`.

        Raises:
            CompileError: MCM-D0## where the placer supports neither the problem nor the box.
                A placement that does not fit is no error here: the caller checks it.
        """
        ...


def placer_of(text: str) -> Placer:
    """The registered placer that a text such as `local_search{restarts=4}` stands for.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names, MCM-X007 for what is no
            placer.
    """
    return cast("Placer", PLACERS.made(spec_text.parse_one(text)))


def placer_answer(text: str, placer: Placer, request: PlacerRequest) -> PlacerAnswer:
    """Run a placer, and check the form of its result; the placement itself may be invalid.

    Args:
        text: its text form.
        placer: the placer.
        request: the request.

    Raises:
        CompileError: MCM-X007 where it fails, or answers in another form.
    """
    with PLACERS.at_work(text.partition("{")[0].strip()):
        return in_form(placer.place(request), PlacerAnswer, found=_devices)


def _devices(given: object) -> Ints:
    row = np.asarray(given)
    # An empty list of a step without ops has no type of its own.
    if row.size and row.dtype.kind not in "iu":
        raise TypeError(f"device_of holds {row.dtype}, no whole numbers")
    inside = np.iinfo(np.int32)
    # Devices that there are none of stay so.
    return np.clip(row, inside.min, inside.max).astype(np.int32)
