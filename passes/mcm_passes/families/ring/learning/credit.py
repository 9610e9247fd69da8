"""Credit of single nodes: how much each choice had to do with the load of its chip (ours).

One reward for thousands of decisions says little of any of them. The fast model knows which chip
is busy or full, so a node on such a chip is told so, even where no partition runs yet.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_models.policy.features import GraphFeatures

ROOM = 0.95
"""Share of a chip's memory that weights may fill; the rest is for tensors."""

OVERFLOW = 10.0
"""Load of a chip whose weights take twice that, over that of one chip's share of the work."""


def node_credit(
    problem: PartitionProblem, features: GraphFeatures, partitions: Ints, sharpness: float = 1.0
) -> Floats:
    """`[R, n]`: minus the load of the chip that each node went to, standardised.

    Less its mean over the rollouts for each node: what lies in the node is no merit of a choice.

    Args:
        problem: gives work and weights.
        features: gives the nodes.
        partitions: `[R, N]`; rows of -1 earn nothing.
        sharpness: power of the load.
    """
    found = partitions[:, 0] >= 0
    credit = np.zeros((len(partitions), features.num_nodes))
    if not found.any():
        return credit
    rows = partitions[found]
    chips = rows[:, features.units]
    loads = _busy(problem, features, chips) + OVERFLOW * _overflow(problem, rows)
    load = -(np.take_along_axis(loads, chips, axis=1) ** sharpness)
    standard = (load - load.mean()) / (load.std() + 1e-30)
    credit[found] = standard - standard.mean(axis=0)
    return credit


def _busy(problem: PartitionProblem, features: GraphFeatures, chips: Ints) -> Floats:
    """`[R, C]`, time of each chip over that of its share of all work."""
    work = problem.compute_s[features.units]
    busy_s = _per_chip(chips, np.broadcast_to(work, chips.shape), problem.num_chips)
    share_s = max(float(work.sum()), 1e-30) / float(problem.chip_speed.sum())
    return busy_s / problem.chip_speed / share_s


def _overflow(problem: PartitionProblem, partitions: Ints) -> Floats:
    """`[R, C]`, by what share the weights of each chip exceed their room."""
    room = ROOM * np.array(problem.limits.sram_bytes, np.float64)
    if not problem.weight_bytes.size or problem.weight_bytes.sum() <= room.min():
        return np.zeros((len(partitions), problem.num_chips))
    weight = np.repeat(np.arange(problem.weight_bytes.size), np.diff(problem.weight_ptr))
    chips = partitions[:, problem.weight_users]
    # A chip holds a weight once, however many of its units read it. Its users there are told
    # apart by sorting chips within each weight.
    key = np.sort(weight * problem.num_chips + chips, axis=1)
    first = np.ones(key.shape, np.bool_)
    first[:, 1:] = key[:, 1:] != key[:, :-1]
    held = np.where(first, problem.weight_bytes[key // problem.num_chips], 0)
    held_bytes = _per_chip(key % problem.num_chips, held, problem.num_chips)
    return np.maximum(held_bytes / room - 1.0, 0.0)


def _per_chip(chips: np.ndarray, values: np.ndarray, num_chips: int) -> Floats:
    """`[R, C]`, sums of `values[R, k]` by `chips[R, k]`."""
    bins = chips + np.arange(len(chips))[:, None] * num_chips
    sums = np.bincount(bins.ravel(), values.ravel(), len(chips) * num_chips)
    return sums.astype(np.float64).reshape(len(chips), num_chips)
