"""Value of a decision about partitioned classes, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions import decision_problem
from mcm_passes.parallelism.decisions.step_cost import StepCost


@dataclass(frozen=True, eq=False)
class DecisionObjective:
    """A sum over partitioned classes, and over terms that count once; more is better.

    Two classes that add `w` together, besides their own, are a term of both that adds `-w`, and
    `w` more for each of them.

    Attributes:
        name: of the objective, for reports.
        linear: `[K]` float64, what each class adds.
        term_gain: `[T]` float64, what each term adds if any of its classes is partitioned.
        term_ptr: `[T + 1]` int32, classes of term t are `term_class[term_ptr[t]:term_ptr[t + 1]]`.
        term_class: int32, classes of all terms.

    Raises:
        ValueError: if the arrays do not fit each other.
    """

    name: str
    linear: NDArray[np.float64]
    term_gain: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    term_ptr: NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))
    term_class: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __post_init__(self) -> None:
        count = len(self.term_gain)
        if len(self.term_ptr) != count + 1 or self.term_ptr[-1] != len(self.term_class):
            raise ValueError(f"{len(self.term_ptr)} ends for {count} terms")
        if ((self.term_class < 0) | (self.term_class >= len(self.linear))).any():
            raise ValueError("a term has a class that there is not")

    def members(self) -> NDArray[np.bool_]:
        """`[T, K]`, the classes of each term."""
        dense = np.zeros((len(self.term_gain), len(self.linear)), dtype=bool)
        dense[np.repeat(np.arange(len(dense)), np.diff(self.term_ptr)), self.term_class] = True
        return dense

    def value(self, partitioned: NDArray[np.bool_]) -> float:
        """Value of a decision `[K]`."""
        paid = (self.members() & partitioned).any(axis=1)
        return float(self.linear[partitioned].sum() + self.term_gain[paid].sum())


def count_objective(problem: decision_problem.DecisionProblem) -> DecisionObjective:
    """`paper-count`: tensors that have a partitioned dim (Wang et al. 2020, section 3.2).

    The paper's reward is 0.4 for each partitioned dim and 0.1 for each replicated one. It adds up
    to a tenth of all dims plus 0.3 for each partitioned dim, of which a tensor has at most one.
    """
    tensor = np.repeat(np.arange(len(problem.tensors)), np.diff(problem.dim_ptr))
    known = problem.dim_class >= 0
    pairs = np.unique(np.stack([tensor[known], problem.dim_class[known]]), axis=1)
    count = np.bincount(pairs[1], minlength=problem.num_classes)
    return DecisionObjective("paper-count", count.astype(np.float64))


def cost_objective(cost: StepCost) -> DecisionObjective:
    """`cost`: seconds of a step that a decision saves."""
    return DecisionObjective("cost", -cost.class_s, -cost.term_s, cost.term_ptr, cost.term_class)
