"""Decisions without learning, for comparison: largest first, and at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions.decision_items import DecisionItems
from mcm_passes.parallelism.decisions.decision_objective import DecisionObjective


def largest_first(items: DecisionItems, forced: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`[K]`: partitions every item that it can and that adds something, in order.

    Args:
        items: what is decided.
        forced: `[K]` bool, classes that must be partitioned.
    """
    partitioned = forced.copy()
    for group in items.item_class[~forced[items.item_class]].tolist():
        unpaid = items.members[:, group] & ~(items.members & partitioned).any(axis=1)
        adds = items.linear[group] + items.term_gain[unpaid].sum()
        if adds > 0 and not (items.blocked[group] or (items.conflicts[group] & partitioned).any()):
            partitioned[group] = True
    return partitioned


def random_search(
    items: DecisionItems,
    objective: DecisionObjective,
    forced: NDArray[np.bool_],
    episodes: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], float]:
    """The best of decisions that toss a coin wherever partitioning is possible.

    The same episodes as the learner's with masked actions, in the same order of items.

    Args:
        items: what is decided.
        objective: what it is worth.
        forced: `[K]` bool, classes that must be partitioned.
        episodes: how many.
        rng: source of the coins.

    Returns:
        `[K]` and its value.
    """
    count = len(items.blocked)
    best, best_value = forced.copy(), objective.value(forced)
    start_value = best_value
    excluded = items.blocked | items.conflicts[forced].any(axis=0)
    start_paid: NDArray[np.bool_] = np.any(items.members & forced, axis=1)
    for first in range(0, episodes, 1024):
        lanes = min(1024, episodes - first)
        coins = rng.random((len(items.item_class), lanes)) < 0.5
        partitioned = np.tile(forced[:, None], (1, lanes))
        against = np.zeros((count, lanes), dtype=bool)
        decided = forced.copy()
        paid = np.tile(start_paid[:, None], (1, lanes))
        value = np.full(lanes, start_value)
        for coin, group in zip(coins, items.item_class.tolist(), strict=True):
            if decided[group]:
                continue
            decided[group] = True
            taken = coin & ~against[group] & (not excluded[group])
            if not taken.any():
                continue
            newly = items.members[:, group, None] & taken & ~paid
            paid |= newly
            value += taken * items.linear[group] + items.term_gain @ newly
            partitioned[group] = taken
            against |= items.conflicts[group][:, None] & taken
        top = int(np.argmax(value))
        if value[top] > best_value:
            best, best_value = partitioned[:, top].copy(), float(value[top])
    return best, best_value
