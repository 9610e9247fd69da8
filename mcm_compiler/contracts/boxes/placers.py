"""The contract of placers, which search for the placement with the shortest step."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions, StepEvaluator
from mcm_compiler.contracts.described import Named
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text
from mcm_compiler.text.option_ranges import at_least, checked

Simulate = Callable[[StepProblem, StepConditions], StepEvaluator]
"""Makes evaluators: of a problem in the box that is asked for, under conditions."""


@dataclass(frozen=True)
class PlacerRequest:
    """Request to a placer; settings of single placers are their own options.

    Attributes:
        evaluations: placements that it may simulate.
        seed: of everything random.
        budget_s: wall time, or None; with one, results need not be reproducible.
        start: `[N]`, a placement to start from, or None.
        simulate: makes evaluators under other conditions and of other problems, such as shorter
            versions of the same step; None if there are no others. Placements that those
            simulate count as evaluations. Those of coarse steps, whose ops represent many each,
            are reported as the figure `coarse evaluations`.
        order: of queues, as the placer's evaluator simulates them.
    """

    evaluations: int = 4000
    seed: int = 0
    budget_s: float | None = None
    start: Ints | None = None
    simulate: Simulate | None = None
    order: QueueOrder = "fifo"


@dataclass(frozen=True, eq=False)
class PlacerAnswer:
    """Result of a placer.

    Attributes:
        device_of: `[N]`, the best placement by score; it need not fit.
        method: search method, for reports, such as `clusters, then local search`.
        evaluations: placements that were simulated.
        history: pairs of evaluations and the best score by then, ascending; for curves.
        figures: further numbers by name, such as entropies of a policy; without units.
    """

    device_of: Ints
    method: str
    evaluations: int
    history: tuple[tuple[int, float], ...] = ()
    figures: tuple[tuple[str, float], ...] = ()


class Placer(Named, Protocol):
    """Places ops: a frozen dataclass whose fields are its options.

    Registered by name as kind `placer`. One with the class attribute
    `searches` set to True looks for the shortest step: where all placements are simulated and one
    is faster than its answer, that one is taken. Others follow a rule, and their answer stands.
    """

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """Searches for a placement that keeps to `allowed` and `together`.

        Args:
            problem: what is placed.
            box: the devices.
            evaluator: of this problem in this box.
            request: see there.
            progress: called with what happens next.

        Raises:
            CompileError: MCM-D0## where the placer cannot do with the problem or the box at all.
                A placement that does not fit is no error here: who asks looks at it.
        """
        ...


@dataclass(frozen=True)
@checked(most_evaluations=at_least(1), op_evaluations=at_least(1))
class PlacerLevel:
    """A level of effort of placing, as `-O2` names it.

    Attributes:
        name: as behind `-O`.
        summary: one line for lists.
        placer: text form of the placer.
        most_evaluations: placements that it may simulate if the step has few ops.
        op_evaluations: ops that it may simulate, over all evaluations, so that the time hardly
            depends on the size of a step; one takes about 0.3 us.
    """

    name: str
    summary: str
    placer: str
    most_evaluations: int
    op_evaluations: int

    def evaluations(self, num_ops: int) -> int:
        """Placements that may be simulated of a step of this number of ops; at least 100."""
        least = min(100, self.most_evaluations)
        return max(min(self.op_evaluations // max(num_ops, 1), self.most_evaluations), least)


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
