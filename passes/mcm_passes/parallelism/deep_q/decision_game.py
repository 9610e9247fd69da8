"""Operator partitioning and data parallelism as a game: partition a class, or replicate it.

After Auto-MAP (Wang et al. 2020, sections 3.2 and 3.3). An episode walks over *items*: linkage
groups, largest first, or single dims, one after the other. Dims of one group share a *class*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcm_models.cards import Singles
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, DecisionProblem

PARTITIONED_DIM = 0.4
"""Reward of a partitioned dim (Wang et al. 2020, section 3.2)."""
REPLICATED_DIM = 0.1
"""Reward of a replicated dim (likewise)."""

REPLICATE, PARTITION = 0, 1
"""Actions, and decisions about a class; -1 is undecided."""

CONTEXT = 13
"""Numbers that are seen of the item at hand."""


@dataclass(eq=False)
class GameState:
    """Where the lanes are; E lanes, K classes, T terms.

    Attributes:
        decision: `[E, K]` int8.
        against: `[E, K]` float32.
        paid: `[E, T]` float32.
        margin: `[E, K]` float32.
        place: next item, the same in all lanes.
        value: `[E]` float32, what the partitioned classes are worth.
    """

    decision: NDArray[np.int8]
    against: Singles
    paid: Singles
    margin: Singles
    place: int
    value: Singles


@dataclass(frozen=True, eq=False)
class DecisionGame:
    """Partition or replicate, item by item; N items, K classes, T terms.

    Attributes:
        item_class: `[N]` int32; -1 for items that are decided already.
        partition_reward: `[N]` float32, for partitioning the item.
        replicate_reward: `[N]` float32, for replicating it.
        term_reward: for each unit that terms add.
        blocked: `[K]` bool, cannot be partitioned.
        conflicts: `[K, K]` float32, 1 for classes that cannot both be partitioned.
        gain: `[K]` float32, what partitioning the class adds to the value.
        term_class: `[T, K]` float32, 1 for the classes of a term.
        term_gain: `[T]` float32, what the term adds once any of its classes is partitioned.
        start: `[K]` int8, decisions that are made already: 1; else -1.
        masked: partitioning what cannot be is not allowed; otherwise it ends the episode with a
            reward of -1.
    """

    item_class: NDArray[np.int32]
    partition_reward: Singles
    replicate_reward: Singles
    term_reward: np.float32
    blocked: NDArray[np.bool_]
    conflicts: Singles
    gain: Singles
    term_class: Singles
    term_gain: Singles
    start: NDArray[np.int8]
    masked: bool

    def reset(self, lanes: int) -> GameState:
        """Nothing decided but what `start` says."""
        chosen = (self.start == PARTITION).astype(np.float32)
        paid = np.minimum(self.term_class @ chosen, np.float32(1.0))
        left = self.term_gain * (1.0 - paid)
        value = chosen @ self.gain + paid @ self.term_gain
        return GameState(
            decision=np.tile(self.start, (lanes, 1)),
            against=np.tile(self.conflicts @ chosen, (lanes, 1)),
            paid=np.tile(paid, (lanes, 1)),
            margin=np.tile(self.gain + left @ self.term_class, (lanes, 1)),
            place=0,
            value=np.full(lanes, value, np.float32),
        )

    def observe(self, state: GameState) -> tuple[Singles, NDArray[np.bool_]]:
        """Observation of the item at hand, `[E, CONTEXT]`, and the actions that are allowed."""
        item, real = self._item(state)
        decision, against = state.decision[:, item], state.against[:, item]
        divided = decision == PARTITION
        fits = divided | ((not self.blocked[item]) & (against == 0) & (decision != REPLICATE))
        mask = np.ones((len(decision), 2), bool)
        mask[:, REPLICATE] = ~(real & divided)
        mask[:, PARTITION] = real & (divided | (decision < 0) & (fits | (not self.masked)))
        can = (state.decision < 0) & ~self.blocked & (state.against == 0)
        # In gains of the largest class.
        top = max(float(np.abs(self.gain).max()), 1e-9)
        margin = state.margin[:, item] / top
        open_gain = np.where(can, np.maximum(state.margin, 0.0), 0.0)
        lost = self.conflicts[item] * open_gain / top
        lost_sum = lost.sum(axis=-1)
        columns = (
            margin,
            self.gain[item] / top,
            lost_sum,
            lost.max(axis=-1),
            (lost > 0).sum(axis=-1) / 4.0,
            margin - lost_sum,
            fits,
            divided,
            decision == REPLICATE,
            against > 0,
            self.blocked[item],
            state.place / len(self.item_class),
            open_gain.sum(axis=-1) / top / 16.0,
        )
        context = np.empty((len(decision), CONTEXT), np.float32)
        for number, column in enumerate(columns):
            context[:, number] = column
        return context, mask

    def step(
        self, state: GameState, action: NDArray[np.int64], alive: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.bool_]]:
        """Decides in the lanes that are alive, in place; rewards and where it is over."""
        place, (item, real) = state.place, self._item(state)
        real = alive & real
        before = state.decision[:, item].copy()
        wants = real & (action == PARTITION)
        conflict = wants & (self.blocked[item] | (state.against[:, item] > 0))
        open_still = real & ~conflict & (before < 0)
        new = wants & open_still
        by_terms = state.margin[:, item] - self.gain[item]
        gained = np.where(new, state.margin[:, item], np.float32(0.0))
        reward = np.where(
            wants,
            self.partition_reward[place] + new * self.term_reward * by_terms,
            self.replicate_reward[place],
        )
        reward = np.where(real, np.where(conflict, -1.0, reward), 0.0)
        state.decision[:, item] = np.where(open_still, action, before)
        state.against[new] += self.conflicts[item]
        newly = new[:, None] * self.term_class[:, item] * (1.0 - state.paid)
        state.paid += newly
        state.margin -= (newly * self.term_gain) @ self.term_class
        state.value += gained
        state.place += 1
        return reward.astype(np.float32), conflict | (state.place == len(self.item_class))

    def _item(self, state: GameState) -> tuple[int, bool]:
        """The class of the item at hand, and whether it is still to be decided."""
        item = int(self.item_class[state.place])
        return max(item, 0), item >= 0


def decision_game(
    problem: DecisionProblem, objective: DecisionObjective, *, linkage: bool, masked: bool
) -> DecisionGame:
    """The game of a problem, with nothing decided.

    Args:
        problem: what is decided about.
        objective: what it is worth.
        linkage: items are groups, those with most dims first, then those with most bytes;
            otherwise single dims, those of the largest tensors first.
        masked: see `DecisionGame`; classes that cannot be partitioned are not asked about then.
    """
    known = np.flatnonzero(problem.dim_class >= 0)
    dim_class, dim_bytes = problem.dim_class[known], problem.dim_bytes[known]
    count = problem.num_classes
    if linkage:
        dims = np.bincount(dim_class, minlength=count)
        # Exact, other than a sum of floats by bincount.
        group_bytes = np.zeros(count, dtype=np.int64)
        np.add.at(group_bytes, dim_class, dim_bytes)
        item_class = np.lexsort((np.arange(count), -group_bytes, -dims))
        item_dims = dims[item_class]
    else:
        item_class = dim_class[np.lexsort((np.arange(len(known)), -dim_bytes))]
        item_dims = np.ones(len(known), np.int64)
    if masked:
        free = ~problem.blocked[item_class]
        item_class, item_dims = item_class[free], item_dims[free]
    if objective.name == "paper-count":
        # Over that of the largest class, so that one learning rate suits all models.
        of_class = np.bincount(item_class, weights=item_dims)
        scale = 1.0 / (PARTITIONED_DIM * of_class.max(initial=1.0))
        share = (scale * item_dims).astype(np.float32)
        partition, replicate = (
            np.float32(reward) * share for reward in (PARTITIONED_DIM, REPLICATED_DIM)
        )
        per_term = 0.0
    else:
        top = max(float(np.abs(objective.linear).max(initial=0.0)), 1e-30)
        partition = (objective.linear / top)[item_class].astype(np.float32)
        replicate, per_term = np.zeros_like(partition), 1.0 / top
    return DecisionGame(
        item_class=item_class.astype(np.int32),
        partition_reward=partition,
        replicate_reward=replicate,
        term_reward=np.float32(per_term),
        blocked=problem.blocked,
        conflicts=problem.conflicts.astype(np.float32),
        gain=objective.linear.astype(np.float32),
        term_class=objective.members.astype(np.float32),
        term_gain=objective.term_gain.astype(np.float32),
        start=np.full(count, -1, np.int8),
        masked=masked,
    )
