"""Local search: trajectories of moves whose cost is that of what they change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.families.ring.analytic.fast_model import evaluate
from mcm_passes.families.ring.moves.placed_problem import placed_problem
from mcm_passes.families.ring.moves.placement_state import empty_state
from mcm_passes.families.ring.moves.walk_kernels import Walk, begin_walk, empty_walk, take_steps

Words = npt.NDArray[np.uint64]

UNKNOWN = np.iinfo(np.int64).max // 2
"""Blocks of memory where nothing is known."""


class Walker:
    """A problem prepared for walks.

    Args:
        problem: the problem.
        reference_s: the period that scores are relative to.
        memory: steps that late acceptance looks back; 1 for the last one alone.

    Attributes:
        placed: the problem as moves see it.
    """

    def __init__(self, problem: PartitionProblem, reference_s: float, memory: int = 1) -> None:
        self._problem = problem
        self.placed = placed_problem(problem)
        self._reference_s = reference_s
        self._memory = memory

    def walk(self, chip_of: Ints, stream: Words) -> Walk:
        """A walk from a valid partition.

        Args:
            chip_of: `[N]`, the partition.
            stream: `[1]`, state of the walk's random stream.
        """
        made = empty_walk(self.placed, empty_state(self.placed), self._memory, stream)
        self.begin(made, chip_of)
        return made

    def begin(self, walk: Walk, chip_of: Ints) -> None:
        """Has a walk go on from another valid partition `[N]`, whose best is forgotten."""
        problem = self._problem
        needed = np.full(problem.num_chips, UNKNOWN)
        if problem.memory == "need" and not problem.streams:
            # Moves count memory as an estimate does; what is needed at the start is known better.
            block = problem.limits.buffer_alignment_bytes
            needed = evaluate(problem, chip_of).memory_bytes // block
        begin_walk(self.placed, walk, np.asarray(chip_of, np.int32), needed, self._reference_s)

    def advance(self, walk: Walk, steps: int, heat: float = 0.0) -> None:
        """Makes steps, annealed from `heat` down to 0; see `take_steps`."""
        take_steps(self.placed, walk, self._reference_s, steps, heat)
