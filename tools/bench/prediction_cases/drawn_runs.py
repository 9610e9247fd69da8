"""Placements that are drawn: runs of consecutive ops on random devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest

SHARES = (0.5, 0.25, 0.1, 0.75)
"""Of the runs that go to the second core."""

SEED = 0


@dataclass(frozen=True)
class Drawn:
    """A placer that draws: runs of consecutive ops on random devices.

    Attributes:
        length: ops of a run; 0 for one device alone.
        draw: which of the placements with such runs.
    """

    name: ClassVar[str] = "drawn-runs"
    summary: ClassVar[str] = "runs of consecutive ops on random devices"

    length: int = 0
    draw: int = 0

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Draws one."""
        from mcm_compiler.contracts.boxes.placers import PlacerAnswer

        problem = request.problem
        rng = np.random.default_rng([SEED, self.length, self.draw])
        device = np.zeros(problem.num_ops, np.int32)
        if self.length:
            runs = -(-problem.num_ops // self.length)
            share = SHARES[self.draw % len(SHARES)]
            device = (rng.random(runs) < share).repeat(self.length)[: problem.num_ops]
        # Ops that run together follow the first of them, and inputs stay where they lie.
        first = np.unique(problem.together, return_index=True)[1]
        device = device[first[problem.together]].astype(np.int32)
        free = problem.allowed[np.arange(problem.num_ops), device]
        device[~free] = problem.allowed[~free].argmax(axis=1)
        return PlacerAnswer(device, "drawn", 0)


def likeness(schedule: Any) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Equal for schedules that differ by the names of devices alone.

    Devices are counted in the order in which they come.
    """
    turn: dict[str, int] = {}
    return tuple(
        (turn.setdefault(s["device"], len(turn)), tuple(s["outputs"])) for s in schedule["segments"]
    )
