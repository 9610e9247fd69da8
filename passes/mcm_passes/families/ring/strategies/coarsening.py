"""Coarser problems: neighbours in a topological order become one unit.

Two units that are next to each other in a topological order can be merged without making a cycle,
and so can any set of disjoint such pairs, since the order of the rest stays topological. (Herrmann
et al. 2017, *Acyclic Partitioning of Large Directed Acyclic Graphs*, keep matchings acyclic by
levels of the graph instead; orders that go depth-first merge along paths, as we want it.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, PartitionProblem
from mcm_passes.mapping.problem.regrouping import regrouped, with_regrouped
from mcm_passes.mapping.problem.topological_orders import topological_orders

ORDERS = 3
"""Topological orders that merging takes in turn."""


@dataclass(frozen=True, eq=False)
class Coarsening:
    """A problem with fewer units.

    Loads are the same as on the finer problem; what is live within a merged unit is left out.

    Attributes:
        problem: the coarser problem.
        unit_of: `[N]`, the unit that each of the finer problem's units became part of.
    """

    problem: PartitionProblem
    unit_of: Ints

    def coarse(self, chip_of: Ints) -> Ints:
        """A partition of the finer problem, whose merged units share a chip, on the coarser one."""
        chips = np.zeros(self.problem.num_units, np.int32)
        chips[self.unit_of] = chip_of
        return chips

    def fine(self, chip_of: Ints) -> Ints:
        """A partition of the coarser problem on the finer one."""
        return chip_of[self.unit_of]


def coarsen(problem: PartitionProblem, chip_of: Ints, level: int, least: int) -> Coarsening:
    """Merges pairs of units that are on one chip and have a tensor or a weight in common.

    Pairs with more in common are preferred to those before and after them in the order, and none
    grows beyond the share of a chip that `least` units would have.

    Args:
        problem: the finer problem.
        chip_of: `[N]`, a valid partition of it, which stays one of the coarser problem.
        level: how often the problem was coarsened before; chooses the order.
        least: units below which there is no point in merging.
    """
    orders = topological_orders(problem, ORDERS)
    order = orders[level % len(orders)].units
    most_s = float(problem.compute_s.sum()) / max(least, 1)
    fits = problem.compute_s[order[:-1]] + problem.compute_s[order[1:]] <= most_s
    pinned = problem.pinned_chip[order]
    apart = (pinned[:-1] >= 0) & (pinned[1:] >= 0) & (pinned[:-1] != pinned[1:])
    allowed = (chip_of[order[:-1]] == chip_of[order[1:]]) & fits & ~apart
    merged = _matching(_shared_seconds(problem, order), allowed)
    return _contract(problem, order, merged)


def _shared_seconds(problem: PartitionProblem, order: Ints) -> Floats:
    """`[n - 1]`, seconds on a link of what each unit of the order shares with the next."""
    position = np.full(problem.num_units, -1, np.int64)
    position[order] = np.arange(order.size)
    shared = np.zeros(max(order.size - 1, 0))
    consumers = position[problem.tensor_consumers]
    rows = np.repeat(np.arange(problem.tensor_bytes.size), np.diff(problem.tensor_ptr))
    makers = problem.tensor_producer[rows]
    makers = np.where(makers >= 0, position[makers], -1)
    # What is sent at all costs something, however few its bytes.
    seconds = problem.tensor_bytes / problem.limits.link_bytes_per_s + problem.relay_s
    direct = (makers >= 0) & (consumers == makers + 1)
    np.add.at(shared, makers[direct], seconds[rows[direct]])
    weight_rows = np.repeat(np.arange(problem.weight_bytes.size), np.diff(problem.weight_ptr))
    for owner, at, price in (
        (rows, consumers, seconds),
        (
            weight_rows,
            position[problem.weight_users],
            problem.weight_bytes / problem.limits.link_bytes_per_s,
        ),
    ):
        by_place = np.lexsort((at, owner))
        owner_of, place = owner[by_place], at[by_place]
        both = (owner_of[1:] == owner_of[:-1]) & (place[1:] == place[:-1] + 1) & (place[:-1] >= 0)
        # Readers of the same are less close than a reader and its producer.
        np.add.at(shared, place[:-1][both], 0.5 * price[owner_of[:-1][both]])
    return shared


@entry_njit
def _matching(shared: Floats, allowed: Bools) -> Bools:
    """`[n - 1]`, the disjoint neighbours that share the most in all, by dynamic programming."""
    m = shared.size
    value = np.zeros(m + 2)
    for p in range(m - 1, -1, -1):
        value[p] = value[p + 1]
        if allowed[p] and shared[p] > 0.0:
            value[p] = max(value[p], shared[p] + value[p + 2])
    taken = np.zeros(m, np.bool_)
    p = 0
    while p < m:
        if allowed[p] and shared[p] > 0.0 and value[p] == shared[p] + value[p + 2]:
            taken[p] = True
            p += 1
        p += 1
    return taken


def _contract(problem: PartitionProblem, order: Ints, merged: Bools) -> Coarsening:
    """The problem in which each position with `merged` is one with the next."""
    n = problem.num_units
    begins = np.concatenate([[True], ~merged]) if order.size else np.zeros(0, np.bool_)
    group = np.cumsum(begins) - 1
    clonable = np.flatnonzero(problem.clonable)
    # Clonable units read from each other only, so that they may all stand first.
    unit_of = np.empty(n, np.int32)
    unit_of[clonable] = np.arange(clonable.size)
    unit_of[order] = clonable.size + group
    count = int(clonable.size + begins.sum())
    first = np.empty(count, np.int64)
    first[unit_of[order[::-1]]] = order[::-1]
    first[unit_of[clonable]] = clonable
    pinned = np.full(count, -1, np.int32)
    np.maximum.at(pinned, unit_of, problem.pinned_chip)
    made = problem.tensor_producer
    producer = np.where(made >= 0, unit_of[made], -1)
    readers = unit_of[problem.tensor_consumers]
    # Tensors that leave a merged unit, or come from the host or go there.
    outside = readers != np.repeat(producer, np.diff(problem.tensor_ptr))
    tensors = regrouped(
        problem.tensor_ptr,
        readers,
        problem.tensor_touched,
        outside,
        problem.tensor_to_host,
        count,
    )
    users = unit_of[problem.weight_users]
    everywhere = np.ones(users.size, np.bool_)
    all_weights = np.ones(problem.weight_bytes.size, np.bool_)
    weights = regrouped(
        problem.weight_ptr, users, problem.weight_touched, everywhere, all_weights, count
    )
    coarse = dataclasses.replace(
        with_regrouped(problem, tensors, producer[tensors.kept], weights),
        names=tuple(map(problem.names.__getitem__, first.tolist())),
        members=tuple(map(problem.members.__getitem__, first.tolist())),
        compute_s=np.bincount(unit_of, problem.compute_s, minlength=count),
        clonable=np.arange(count) < clonable.size,
        pinned_chip=pinned,
        # What merged units hold at once is not known.
        one_kernel=problem.one_kernel[first] & (np.bincount(unit_of, minlength=count) == 1),
    )
    return Coarsening(coarse, unit_of)
