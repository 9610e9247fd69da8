"""Operator partitioning and data parallelism as an environment: partition a class, or replicate it.

After Auto-MAP (Wang et al. 2020, sections 3.2 and 3.3). An episode walks over *items*: linkage
groups, largest first, or single dims, one after the other. Dims of one group share a *class*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mcm_models.dqn.decision_arrays import (
    CONTEXT,
    PARTITION,
    REPLICATE,
    DecisionArrays,
    ItemAtHand,
    item_context,
)
from mcm_models.dqn.environment import Observation

Array = jax.Array


class DecisionState(NamedTuple):
    """Where an episode is.

    Attributes:
        decision: `[K]` int8: 1 partitioned, 0 replicated, -1 undecided.
        against: `[K]` float32, partitioned classes that a class conflicts with.
        paid: `[T]` float32, 1 for terms that have a partitioned class.
        margin: `[K]` float32, what partitioning the class would add to the score now.
        place: next item.
        value: score of the partitioned classes.
    """

    decision: Array
    against: Array
    paid: Array
    margin: Array
    place: Array
    value: Array


@dataclass(frozen=True)
class DecisionEnvironment:
    """Partition or replicate, item by item.

    Attributes:
        items: N.
        masked: partitioning what cannot be is not allowed (ours); otherwise, as published, it is,
            and ends the episode with a reward of `conflict_reward`.
        flat: what is seen is the decision of every item's class and the place, as published;
            otherwise a few numbers about the item at hand (ours).
        conflict_reward: reward of a conflict.
    """

    items: int
    masked: bool = True
    flat: bool = False
    conflict_reward: float = -1.0

    @property
    def num_actions(self) -> int:
        """Replicate or partition."""
        return 2

    @property
    def horizon(self) -> int:
        """One step per item."""
        return self.items

    @property
    def features(self) -> int:
        """F of the observation."""
        return 0 if self.flat else 2

    @property
    def context(self) -> int:
        """G of the observation."""
        return 2 * self.items if self.flat else CONTEXT

    def reset(self, key: Array, params: DecisionArrays) -> DecisionState:
        """Nothing decided but what `params.start` says."""
        del key
        chosen = (params.start == PARTITION).astype(jnp.float32)
        paid = jnp.minimum(params.term_class @ chosen, 1.0)
        left = params.term_gain * (1.0 - paid)
        return DecisionState(
            decision=params.start,
            against=params.conflicts @ chosen,
            paid=paid,
            margin=params.gain + left @ params.term_class,
            place=jnp.int32(0),
            value=chosen @ params.gain + paid @ params.term_gain,
        )

    def observe(self, state: DecisionState, params: DecisionArrays) -> Observation:
        """The item at hand; see `flat`."""
        place = jnp.minimum(state.place, self.items - 1)
        number, item = _item_at(params, place)
        here = _class_at(state, params, item)
        real = (number >= 0) & (state.place < self.items)
        divided = here.decision == PARTITION
        fits = (here.blocked + here.against == 0) & (here.decision != REPLICATE) | divided
        can = divided | (here.decision < 0) & (fits | (not self.masked))
        mask = jnp.stack([~(real & divided), real & can])
        if self.flat:
            known = jnp.where(params.item_class >= 0, state.decision[params.item_class], 0)
            same = (params.item_class == item) & real
            context = jnp.concatenate([known, same]).astype(jnp.float32)
            return Observation(jnp.zeros((2, 0), jnp.float32), context, mask)
        open_gain = jnp.where(
            (state.decision < 0) & ~params.blocked & (state.against == 0),
            jnp.maximum(state.margin, 0.0),
            0.0,
        )
        context = item_context(
            jnp,
            ItemAtHand(
                margin=here.margin,
                gain=here.gain,
                conflicts=params.conflicts[item],
                fits=fits,
                decision=here.decision,
                against=here.against,
                blocked=here.blocked,
                progress=state.place / self.items,
            ),
            open_gain=open_gain,
            top=jnp.maximum(jnp.max(jnp.abs(params.gain)), 1e-9),
        )
        return Observation(jnp.eye(2, dtype=jnp.float32), context, mask)

    def step(
        self, state: DecisionState, action: Array, params: DecisionArrays
    ) -> tuple[DecisionState, Array, Array]:
        """Decides about the item at hand and propagates it to its class.

        A conflict is to partition what is blocked or conflicts with what is partitioned. What
        has been decided with a linked item is not decided otherwise.
        """
        number, item = _item_at(params, state.place)
        here = _class_at(state, params, item)
        real = number >= 0
        wants = real & (action == PARTITION)
        conflict = wants & (here.blocked + here.against > 0)
        open_still = real & ~conflict & (here.decision < 0)
        add = (wants & open_still).astype(jnp.float32)
        newly = add * params.term_class[:, item] * (1.0 - state.paid)
        rewards = jnp.stack([params.replicate_reward, params.partition_reward], axis=-1)
        reward = rewards[state.place, action]
        reward += add * params.term_reward * (here.margin - here.gain)
        reward = jnp.where(real, jnp.where(conflict, self.conflict_reward, reward), 0.0)
        # A comparison with all classes compiles to less code than a write to one place.
        decides = (jnp.arange(state.decision.shape[0]) == item) & open_still
        moved = DecisionState(
            decision=jnp.where(decides, action.astype(jnp.int8), state.decision),
            against=state.against + add * params.conflicts[item],
            paid=state.paid + newly,
            margin=state.margin - (newly * params.term_gain) @ params.term_class,
            place=state.place + 1,
            value=state.value + add * here.margin,
        )
        return moved, reward, conflict | (moved.place >= self.items)

    def score(self, state: DecisionState, params: DecisionArrays) -> Array:
        """What the partitioned classes are worth, the others replicated; always feasible."""
        del params
        return state.value


class _Class(NamedTuple):
    """What is known of one class."""

    decision: Array
    against: Array
    margin: Array
    gain: Array
    blocked: Array


def _item_at(params: DecisionArrays, place: Array) -> tuple[Array, Array]:
    """The class of an item as it stands there, and as an index."""
    number = params.item_class[place]
    return number, jnp.maximum(number, 0)


def _class_at(state: DecisionState, params: DecisionArrays, item: Array) -> _Class:
    """One read of a table: five reads compile to five times the code."""
    rows = (state.decision, state.against, state.margin, params.gain, params.blocked)
    table = jnp.stack([row.astype(jnp.float32) for row in rows])
    return _Class(*jax.lax.dynamic_slice_in_dim(table, item, 1, axis=1)[:, 0])
