"""The contract of placers, which search for the placement with the shortest step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.contracts.described import Named


@dataclass(frozen=True)
class PlacerRequest:
    """What every placer is asked; what only some have to be told are options of theirs.

    Attributes:
        evaluations: placements that it may simulate.
        seed: of everything random.
        budget_s: wall time, or None; with one, results need not be reproducible.
        start: `[N]`, a placement to start from, or None.
    """

    evaluations: int = 4000
    seed: int = 0
    budget_s: float | None = None
    start: Ints | None = None


@dataclass(frozen=True, eq=False)
class PlacerAnswer:
    """What a placer found.

    Attributes:
        device_of: `[N]`, the best placement by score; it need not fit.
        method: what found it, for reports, such as `clusters, then local search`.
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

    Found by name through the entry points of `mcm_compiler.placers`.
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
