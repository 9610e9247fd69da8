"""Operator partitioning and data parallelism as an environment: partition a class, or replicate it.

After Auto-MAP (Wang et al. 2020, sections 3.2 and 3.3). An episode walks over *items*: linkage
groups, largest first, or single dims, one after the other. Dims of one group share a *class*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deep_q_study.learner import Observation
from deep_q_study.network import QLayout, Singles
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, DecisionProblem

PARTITIONED_DIM = 0.4
"""Reward of a partitioned dim (Wang et al. 2020, section 3.2)."""
REPLICATED_DIM = 0.1
"""Reward of a replicated dim (likewise)."""


@dataclass(frozen=True, eq=False)
class DecisionItems:
    """Decisions to make, one after the other; N items, K classes, T terms.

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
    problem: DecisionProblem,
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
        members=objective.members,
        term_gain=objective.term_gain,
        counts=objective.name == "paper-count",
    )


def gap(value: float, best: float) -> float:
    """How far a value is below the best, as a share of it; 0 where they are equal."""
    if math.isclose(value, best, rel_tol=1e-9, abs_tol=1e-12):
        return 0.0
    return (best - value) / max(abs(best), 1e-30)


REPLICATE, PARTITION = 0, 1
"""Actions, and decisions about a class; -1 is undecided."""

CONTEXT = 13
"""Numbers that are seen of the item at hand."""


class DecisionArrays(NamedTuple):
    """An instance; N items, K classes, T terms.

    Items of class -1 are padding: they pass without a decision.

    Attributes:
        item_class: `[N]` int32.
        partition_reward: `[N]` float32, for partitioning the item.
        replicate_reward: `[N]` float32, for replicating it.
        blocked: `[K]` bool, cannot be partitioned.
        conflicts: `[K, K]` float32, 1 for classes that cannot both be partitioned.
        gain: `[K]` float32, what partitioning the class adds to the score.
        term_class: `[T, K]` float32, 1 for the classes of a term.
        term_gain: `[T]` float32, what the term adds once any of its classes is partitioned.
        term_reward: float32 scalar, reward for each unit that terms add.
        start: `[K]` int8, decisions that are made already: 1, or 0; else -1.
    """

    item_class: NDArray[np.int32]
    partition_reward: Singles
    replicate_reward: Singles
    blocked: NDArray[np.bool_]
    conflicts: Singles
    gain: Singles
    term_class: Singles
    term_gain: Singles
    term_reward: np.float32
    start: NDArray[np.int8]


@dataclass(eq=False)
class DecisionState:
    """Where the lanes are; E lanes, K classes, T terms.

    Attributes:
        decision: `[E, K]` int8.
        against: `[E, K]` float32.
        paid: `[E, T]` float32.
        margin: `[E, K]` float32.
        place: next item, the same in all lanes.
        value: `[E]` float32.
    """

    decision: NDArray[np.int8]
    against: Singles
    paid: Singles
    margin: Singles
    place: int
    value: Singles


@dataclass(frozen=True, eq=False)
class DecisionEnvironment:
    """Partition or replicate, item by item; implements `learner.Environment`.

    Attributes:
        arrays: the instance.
        masked: partitioning what cannot be is not allowed (ours); otherwise, as published, it is,
            and ends the episode with a reward of `conflict_reward`.
        flat: what is seen is the decision of every item's class and the place, as published;
            otherwise a few numbers about the item at hand (ours).
        conflict_reward: reward of a conflict.
    """

    arrays: DecisionArrays
    masked: bool = True
    flat: bool = False
    conflict_reward: float = -1.0

    @property
    def horizon(self) -> int:
        """One step per item."""
        return len(self.arrays.item_class)

    def layout(self, hidden: tuple[int, ...]) -> QLayout:
        """Of a network with these hidden layers."""
        if self.flat:
            return QLayout(0, 2 * self.horizon, 2, hidden)
        return QLayout(2, CONTEXT, 2, hidden)

    def reset(self, lanes: int) -> DecisionState:
        """Nothing decided but what `arrays.start` says."""
        arrays = self.arrays
        chosen = (arrays.start == PARTITION).astype(np.float32)
        paid = np.minimum(arrays.term_class @ chosen, np.float32(1.0))
        left = arrays.term_gain * (1.0 - paid)
        value = chosen @ arrays.gain + paid @ arrays.term_gain
        return DecisionState(
            decision=np.tile(arrays.start, (lanes, 1)),
            against=np.tile(arrays.conflicts @ chosen, (lanes, 1)),
            paid=np.tile(paid, (lanes, 1)),
            margin=np.tile(arrays.gain + left @ arrays.term_class, (lanes, 1)),
            place=0,
            value=np.full(lanes, value, np.float32),
        )

    def observe(self, state: DecisionState) -> Observation:
        """The item at hand; see `flat`."""
        arrays = self.arrays
        place = min(state.place, self.horizon - 1)
        item = max(int(arrays.item_class[place]), 0)
        real = arrays.item_class[place] >= 0 and state.place < self.horizon
        lanes = len(state.value)
        decision, against = state.decision[:, item], state.against[:, item]
        divided = decision == PARTITION
        fits = divided | ((not arrays.blocked[item]) & (against == 0) & (decision != REPLICATE))
        mask = np.ones((lanes, 2), bool)
        mask[:, REPLICATE] = ~(real & divided)
        mask[:, PARTITION] = real & (divided | (decision < 0) & (fits | (not self.masked)))
        if self.flat:
            known = np.where(arrays.item_class >= 0, state.decision[:, arrays.item_class], 0)
            here = np.tile((arrays.item_class == item) & real, (lanes, 1))
            context = np.concatenate([known, here], axis=1, dtype=np.float32)
            return Observation(np.zeros((lanes, 2, 0), np.float32), context, mask)
        can = (state.decision < 0) & ~arrays.blocked & (state.against == 0)
        margin, gain = state.margin[:, item], arrays.gain[item]
        # In gains of the largest class.
        top = max(float(np.abs(arrays.gain).max()), 1e-9)
        open_gain = np.where(can, np.maximum(state.margin, 0.0), 0.0)
        lost = arrays.conflicts[item] * open_gain / top
        lost_sum = lost.sum(axis=-1)
        columns = (
            margin / top,
            gain / top,
            lost_sum,
            lost.max(axis=-1),
            (lost > 0).sum(axis=-1) / 4.0,
            margin / top - lost_sum,
            fits,
            divided,
            decision == REPLICATE,
            against > 0,
            arrays.blocked[item],
            state.place / self.horizon,
            open_gain.sum(axis=-1) / top / 16.0,
        )
        context = np.empty((lanes, CONTEXT), np.float32)
        for number, column in enumerate(columns):
            context[:, number] = column
        candidates = np.tile(np.eye(2, dtype=np.float32), (lanes, 1, 1))
        return Observation(candidates, context, mask)

    def step(
        self, state: DecisionState, action: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.bool_]]:
        """Decides in the lanes that are alive, in place; rewards and where it is over."""
        arrays = self.arrays
        place = state.place
        item = max(int(arrays.item_class[place]), 0)
        real = alive & bool(arrays.item_class[place] >= 0)
        before = state.decision[:, item].copy()
        wants = real & (action == PARTITION)
        conflict = wants & (arrays.blocked[item] | (state.against[:, item] > 0))
        open_still = real & ~conflict & (before < 0)
        new = wants & open_still
        by_terms = state.margin[:, item] - arrays.gain[item]
        gained = np.where(new, state.margin[:, item], np.float32(0.0))
        reward = np.where(
            wants,
            arrays.partition_reward[place] + new * arrays.term_reward * by_terms,
            arrays.replicate_reward[place],
        )
        reward = np.where(real, np.where(conflict, self.conflict_reward, reward), 0.0)
        state.decision[:, item] = np.where(open_still, action, before)
        state.against[new] += arrays.conflicts[item]
        newly = new[:, None] * arrays.term_class[:, item] * (1.0 - state.paid)
        state.paid += newly
        state.margin -= (newly * arrays.term_gain) @ arrays.term_class
        state.value += gained
        state.place += 1
        return reward.astype(np.float32), conflict | (state.place >= self.horizon)

    def answer(self, state: DecisionState, lane: int) -> NDArray[np.int8]:
        """`[K]`, decisions in a lane."""
        return state.decision[lane].copy()

    def score(self, state: DecisionState) -> Singles:
        """`[E]`, what the partitioned classes are worth."""
        return state.value
