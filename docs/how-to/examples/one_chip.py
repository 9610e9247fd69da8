"""A strategy: all ops on the first chip."""

from dataclasses import dataclass

import numpy as np

from mcm_compiler import register
from mcm_compiler.contracts.partition import Evaluate, Outcome, PartitionProblem


@register("strategy")
@dataclass(frozen=True)
class OneChip:
    """The period is infinite for an assignment that is not valid."""

    name, summary = "acme_one_chip", "everything on the first chip"

    def solve(self, problem: PartitionProblem, evaluate: Evaluate, *_: object) -> Outcome:
        chip_of = np.zeros(problem.num_units, dtype=np.int32)
        return Outcome(chip_of if np.isfinite(evaluate(chip_of)) else None, 1)
