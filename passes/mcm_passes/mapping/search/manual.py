"""The user's own assignment, taken as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Outcome, PartitionProblem


@dataclass(frozen=True)
class Manual:
    """No search: the partition is given.

    Attributes:
        chips: chip of each unit, in the order of the problem; `--assignment` fills it from a file.
    """

    name: ClassVar[str] = "manual"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "the user's own assignment (--assignment FILE), taken as it is"

    chips: tuple[int, ...] = ()

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Gives the chips back if they are a valid partition."""
        del rng
        if not self.chips:
            return Outcome(None, 0, "no assignment is given; --assignment FILE takes one")
        if len(self.chips) != problem.num_units:
            reason = f"it has {len(self.chips)} chips for {problem.num_units} units"
            return Outcome(None, 0, reason)
        chip_of = np.array(self.chips, np.int32)
        period_s = evaluate(chip_of)
        if not np.isfinite(period_s):
            return Outcome(None, 1, "the assignment breaks a rule")
        budget.monitor.best(chip_of, period_s)
        return Outcome(chip_of, 1)
