"""What a decision about partitioned classes asks one after the other, as arrays.

An item is a linkage group, largest first, or without linkage groups a single dim of a tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions import decision_problem
from mcm_passes.parallelism.decisions.decision_objective import DecisionObjective

PARTITIONED_DIM = 0.4
"""Reward of a partitioned dim (Wang et al. 2020, section 3.2)."""
REPLICATED_DIM = 0.1
"""Reward of a replicated dim (likewise)."""


@dataclass(frozen=True, eq=False)
class DecisionItems:
    """What is decided, one after the other; N items, K classes, T terms.

    Attributes:
        item_class: `[N]` int32.
        item_dims: `[N]` int32, dims that are decided with the item, linked ones included.
        blocked: `[K]` bool.
        conflicts: `[K, K]` bool.
        linear: `[K]` float64, what the class adds to the objective.
        members: `[T, K]` bool, the classes of each term of the objective.
        term_gain: `[T]` float64, what a term adds once.
        counts: whether the objective is the number of tensors.
    """

    item_class: NDArray[np.int32]
    item_dims: NDArray[np.int32]
    blocked: NDArray[np.bool_]
    conflicts: NDArray[np.bool_]
    linear: NDArray[np.float64]
    members: NDArray[np.bool_]
    term_gain: NDArray[np.float64]
    counts: bool

    @property
    def top(self) -> float:
        """The largest gain of a class; what values are divided by."""
        return max(float(np.abs(self.linear).max(initial=0.0)), 1e-30)

    def rewards(self, published: bool) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
        """`[N]` for partitioning, `[N]` for replicating, and for what terms add.

        Args:
            published: the paper's own rewards for the number of tensors; otherwise over that of
                the largest class, so that one learning rate suits all models. For any other
                objective a reward is always what the objective gains, over `top`.
        """
        if not self.counts:
            gain = (self.linear / self.top)[self.item_class].astype(np.float32)
            return gain, np.zeros_like(gain), 1.0 / self.top
        of_class = np.bincount(self.item_class, weights=self.item_dims)
        scale = 1.0 if published else 1.0 / (PARTITIONED_DIM * of_class.max(initial=1.0))
        dims = (scale * self.item_dims).astype(np.float32)
        return np.float32(PARTITIONED_DIM) * dims, np.float32(REPLICATED_DIM) * dims, 0.0


def decision_items(
    problem: decision_problem.DecisionProblem,
    objective: DecisionObjective,
    *,
    linkage: bool = True,
    with_blocked: bool = False,
) -> DecisionItems:
    """The items of a problem.

    Args:
        problem: what is decided about.
        objective: what it is worth.
        linkage: groups, those with most dims first, then those with most bytes; otherwise single
            dims, those of the largest tensors first.
        with_blocked: whether classes that cannot be partitioned are asked about, too.
    """
    known = np.flatnonzero(problem.dim_class >= 0)
    dim_class = problem.dim_class[known]
    count = problem.num_classes
    if linkage:
        dims = np.bincount(dim_class, minlength=count)
        # Exact, other than a sum of floats by bincount.
        group_bytes = np.zeros(count, dtype=np.int64)
        np.add.at(group_bytes, dim_class, problem.dim_bytes[known])
        order = np.lexsort((np.arange(count), -group_bytes, -dims))
        item_class, item_dims = np.arange(count)[order], dims[order]
    else:
        order = np.lexsort((np.arange(len(known)), -problem.dim_bytes[known]))
        item_class, item_dims = dim_class[order], np.ones(len(order), np.int64)
    if not with_blocked:
        free = ~problem.blocked[item_class]
        item_class, item_dims = item_class[free], item_dims[free]
    return DecisionItems(
        item_class=item_class.astype(np.int32),
        item_dims=item_dims.astype(np.int32),
        blocked=problem.blocked,
        conflicts=problem.conflicts,
        linear=objective.linear,
        members=objective.members(),
        term_gain=objective.term_gain,
        counts=objective.name == "paper-count",
    )


def gap(value: float, best: float) -> float:
    """How far a value is below the best, as a share of it; 0 where they are equal."""
    if math.isclose(value, best, rel_tol=1e-9, abs_tol=1e-12):
        return 0.0
    return (best - value) / max(abs(best), 1e-30)
