"""Instances of operator partitioning and data parallelism as the environments take them."""

from __future__ import annotations

from typing import Any, NamedTuple

REPLICATE, PARTITION = 0, 1
"""Actions, and decisions about a class; -1 is undecided."""

CONTEXT = 13
"""Numbers that are seen of the item at hand."""


class DecisionArrays(NamedTuple):
    """An instance; N items, K classes, T terms. Arrays of NumPy or JAX.

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

    item_class: Any
    partition_reward: Any
    replicate_reward: Any
    blocked: Any
    conflicts: Any
    gain: Any
    term_class: Any
    term_gain: Any
    term_reward: Any
    start: Any


class ItemAtHand(NamedTuple):
    """What is known of the item that is decided about next, and of its class.

    Attributes:
        margin: `[...]`, what partitioning it adds now.
        gain: `[...]`, the same but for terms.
        conflicts: `[..., K]`, classes that it conflicts with.
        fits: `[...]` bool, whether it can be partitioned.
        decision: `[...]`, about its class so far.
        against: `[...]`, partitioned classes that it conflicts with.
        blocked: `[...]` bool.
        progress: `[...]`, share of items before it.
    """

    margin: Any
    gain: Any
    conflicts: Any
    fits: Any
    decision: Any
    against: Any
    blocked: Any
    progress: Any


def item_context(xp: Any, item: ItemAtHand, *, open_gain: Any, top: Any) -> Any:
    """`[..., CONTEXT]`: what is seen of an item, in gains of the largest class.

    Args:
        xp: `numpy` or `jax.numpy`.
        item: its arrays are of that kind.
        open_gain: `[..., K]`, what undecided classes that fit would add, at least 0.
        top: largest gain of a class.
    """
    lost = item.conflicts * open_gain / top
    lost_sum = xp.sum(lost, axis=-1)
    columns = (
        item.margin / top,
        item.gain / top,
        lost_sum,
        xp.max(lost, axis=-1),
        xp.sum(lost > 0, axis=-1) / 4.0,
        item.margin / top - lost_sum,
        item.fits,
        item.decision == PARTITION,
        item.decision == REPLICATE,
        item.against > 0,
        item.blocked,
        item.progress,
        xp.sum(open_gain, axis=-1) / top / 16.0,
    )
    return xp.stack([xp.asarray(column, xp.float32) for column in columns], axis=-1)
