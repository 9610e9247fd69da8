"""Which ideals a chain may go through: all of a graph, or those that promise most."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement.device_chains import (
    ChainSearch,
    DeviceChain,
    Reading,
    group_order,
)
from mcm_passes.mapping.device_placement.device_groups import DeviceGroups
from mcm_passes.mapping.problem.order_ideals import order_ideals
from mcm_passes.mapping.problem.rule_graph import Words, words_of

MOST_IDEALS = 50_000
"""Ideals up to which all are enumerated."""

MOST_NEAR = 64
"""Ideals with one group more or fewer up to which two are tried."""

MOST_WORK = 4e9
"""Words of bitsets that a look at all pairs of ideals may take."""


def all_ideals(groups: DeviceGroups, most: int = MOST_IDEALS) -> Words | None:
    """`[I, words]`, every ideal as a bitset; None where there are more than `most`.

    Or more than can be compared with each other in seconds.
    """
    words = (groups.count + 63) // 64
    most = min(most, int((MOST_WORK / words) ** 0.5))
    # No graph has fewer ideals than a chain.
    if groups.count + 1 > most:
        return None
    found = order_ideals(group_order(groups), most)
    return None if found is None else found.members


def ideals_of_orders(groups: DeviceGroups, rng: np.random.Generator, orders: int) -> set[int]:
    """The ideals that topological orders begin with: the given one, a late one, random ones."""
    n = groups.count
    before: list[list[int]] = [[] for _ in range(n)]
    behind: list[list[int]] = [[] for _ in range(n)]
    for a, b in groups.edges.tolist():
        before[b].append(a)
        behind[a].append(b)
    found = {0}
    late = [n - 1 - v for v in range(n)]
    for k in range(orders):
        first = list(range(n)) if k == 0 else late if k == 1 else rng.permutation(n).tolist()
        # A random priority spreads over the graph, its depth-first form stays on one branch.
        for held in _prefixes(first, before, behind, by_depth=k % 2 == 1):
            found.add(held)
    return found


def neighbours(groups: DeviceGroups, held: int) -> set[int]:
    """Ideals with up to two groups more, and with up to two fewer; one where there are many."""
    needs, needed = [0] * groups.count, [0] * groups.count
    for a, b in groups.edges.tolist():
        needs[b] |= 1 << a
        needed[a] |= 1 << b
    more, fewer = {held}, {held}
    for _ in range(2):
        if len(more) <= MOST_NEAR:
            more |= {
                ideal | 1 << v
                for ideal in more
                for v in range(groups.count)
                if not ideal >> v & 1 and not needs[v] & ~ideal
            }
        if len(fewer) <= MOST_NEAR:
            fewer |= {
                ideal & ~(1 << v)
                for ideal in fewer
                for v in range(groups.count)
                if ideal >> v & 1 and not needed[v] & ideal
            }
    return more | fewer


def _prefixes(
    first: list[int], before: list[list[int]], behind: list[list[int]], *, by_depth: bool
) -> list[int]:
    """Ideals along the order that takes, among groups that are ready, the one that is `first`."""
    import heapq

    waits = [len(b) for b in before]
    ready = [(first[v], v) for v in range(len(waits)) if not waits[v]]
    heapq.heapify(ready)
    held, found = 0, list[int]()
    while ready:
        _, v = heapq.heappop(ready)
        held |= 1 << v
        found.append(held)
        for w in behind[v]:
            waits[w] -= 1
            if not waits[w]:
                # Earlier than all that is ready: the newest comes next.
                heapq.heappush(ready, (first[w] - len(found) * len(waits) * by_depth, w))
    return found


MOST_SAMPLED_IDEALS = 12_000
"""Ideals that are looked at together."""

MOST_ORDERS = 48

MOST_ROUNDS = 40


def sampled_chain(
    problem: PlacementProblem, groups: DeviceGroups, reading: Reading, rng: np.random.Generator
) -> DeviceChain | None:
    """The best chain through ideals of some orders, improved where devices hand over.

    Each round adds the ideals near those where the best chain hands over, until none is better
    (our derivation). None where no chain was found.
    """
    orders = max(3, min(MOST_ORDERS, MOST_SAMPLED_IDEALS // groups.count))
    ideals = ideals_of_orders(groups, rng, orders)
    best: DeviceChain | None = None
    for _ in range(MOST_ROUNDS):
        search = ChainSearch(problem, groups, words_of(sorted(ideals), groups.count))
        found = search.optimum(reading) if best is None else search.below(reading, best.period)
        if found is None or (best is not None and not found.period < best.period):
            break
        best = found
        hand_overs = _hand_overs(groups, best)
        ideals = {0, (1 << groups.count) - 1, *hand_overs}
        for held in hand_overs:
            near = sorted(neighbours(groups, held))
            ideals.update(near[: MOST_SAMPLED_IDEALS // len(hand_overs)])
    return best


def _hand_overs(groups: DeviceGroups, chain: DeviceChain) -> list[int]:
    """The ideals where one device hands over to the next."""
    order = np.argsort(chain.step_of, kind="stable")
    steps = chain.step_of[order]
    found, held = list[int](), 0
    for at, v in enumerate(order.tolist()):
        if at and steps[at] != steps[at - 1]:
            found.append(held)
        held |= 1 << v
    return found or [held]
