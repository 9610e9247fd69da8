"""`DecisionEnvironment` in NumPy, for all lanes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcm_models.dqn.decision_arrays import (
    PARTITION,
    REPLICATE,
    DecisionArrays,
    ItemAtHand,
    item_context,
)
from mcm_models.dqn.layout import Singles
from mcm_models.dqn.numpy_learner import NumpyObservation


@dataclass(eq=False)
class NumpyDecisionState:
    """Where the lanes are; E lanes, K classes, T terms. See `DecisionState`.

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
class NumpyDecisions:
    """Partition or replicate, item by item; see `DecisionEnvironment`.

    Attributes:
        arrays: the instance.
        masked: as there.
        conflict_reward: as there.
    """

    arrays: DecisionArrays
    masked: bool = True
    conflict_reward: float = -1.0

    @property
    def num_actions(self) -> int:
        """Replicate or partition."""
        return 2

    @property
    def horizon(self) -> int:
        """One step per item."""
        return len(self.arrays.item_class)

    def reset(self, lanes: int) -> NumpyDecisionState:
        """Nothing decided but what `arrays.start` says."""
        arrays = self.arrays
        chosen = (arrays.start == PARTITION).astype(np.float32)
        paid = np.minimum(arrays.term_class @ chosen, np.float32(1.0))
        left = arrays.term_gain * (1.0 - paid)
        value = chosen @ arrays.gain + paid @ arrays.term_gain
        return NumpyDecisionState(
            decision=np.tile(arrays.start, (lanes, 1)),
            against=np.tile(arrays.conflicts @ chosen, (lanes, 1)),
            paid=np.tile(paid, (lanes, 1)),
            margin=np.tile(arrays.gain + left @ arrays.term_class, (lanes, 1)),
            place=0,
            value=np.full(lanes, value, np.float32),
        )

    def observe(self, state: NumpyDecisionState) -> NumpyObservation:
        """The item at hand."""
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
        can = (state.decision < 0) & ~arrays.blocked & (state.against == 0)
        context = item_context(
            np,
            ItemAtHand(
                margin=state.margin[:, item],
                gain=np.full(lanes, arrays.gain[item]),
                conflicts=arrays.conflicts[item],
                fits=fits,
                decision=decision,
                against=against,
                blocked=np.full(lanes, arrays.blocked[item]),
                progress=np.full(lanes, state.place / self.horizon),
            ),
            open_gain=np.where(can, np.maximum(state.margin, 0.0), 0.0),
            top=max(float(np.abs(arrays.gain).max()), 1e-9),
        )
        candidates = np.tile(np.eye(2, dtype=np.float32), (lanes, 1, 1))
        return NumpyObservation(candidates, context, mask)

    def step(
        self, state: NumpyDecisionState, action: NDArray[np.int64], alive: NDArray[np.bool_]
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

    def answer(self, state: NumpyDecisionState, lane: int) -> NDArray[np.int8]:
        """`[K]`, decisions in a lane."""
        return state.decision[lane].copy()

    def score(self, state: NumpyDecisionState) -> Singles:
        """`[E]`, what the partitioned classes are worth."""
        return state.value
