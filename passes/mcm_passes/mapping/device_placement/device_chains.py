"""The best chain of order ideals under the device-placement cost: one device per step.

After Tarnawski et al. 2020, section 5.1. Contiguous parts of a graph that can be put in a row are
the differences of a chain of ideals. Dynamic programming over ideals and numbers of devices thus
finds the optimum. Ours looks only at ideals that the devices before can have done, and whose rest
the devices behind can still do, within a period that is known to be reachable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement import device_chain_kernels
from mcm_passes.mapping.device_placement.device_groups import DeviceGroups
from mcm_passes.mapping.device_placement.device_loads import MEMORY_SLACK
from mcm_passes.mapping.device_placement.training_order import backward_paths
from mcm_passes.mapping.problem.order_ideals import order_ideals
from mcm_passes.mapping.problem.rule_graph import (
    RuleGraph,
    Words,
    closure,
    from_edges,
    members_of,
    words_of,
)

Reading = Literal["none", "relay", "adjacent", "between"]
"""Which chains count. `none`: all. `relay`: all, and what passes a device costs there. `adjacent`:
those where every dependency spans at most one device, which is more than the triangle rule asks.
`between`: those where no device is on a path next to a dependency that passes it, which is less
than the triangle rule asks."""

FIRST_SHARE, LAST_SHARE = 1 / 32, 16.0
"""How far the ceilings of a search lie above the least period that is conceivable."""

SLACK = 1e-12
"""Relative space for sums that are taken in another order."""


@dataclass(frozen=True, eq=False)
class DeviceChain:
    """A placement that a chain of ideals stands for.

    Attributes:
        device_of: `[G]`, accelerators first, each kind in the order of the chain.
        step_of: `[G]`, place in the chain.
        period: its largest load.
    """

    device_of: Ints
    step_of: Ints
    period: float


class ChainSearch:
    """Groups and some of their ideals, prepared for dynamic programming.

    Args:
        problem: the problem.
        groups: its groups.
        members: `[I, words]`, bitsets of distinct ideals, the empty and the full one among them.
    """

    def __init__(self, problem: PlacementProblem, groups: DeviceGroups, members: Words) -> None:
        self._before, self._behind = closure(group_order(groups))
        cpus = problem.max_cpus > 0
        can = np.isfinite(groups.accelerator_time)
        on_accelerator = np.where(can, groups.accelerator_time, 0.0)
        least = np.minimum(groups.accelerator_time, groups.cpu_time) if cpus else on_accelerator
        columns = [
            least,
            on_accelerator,
            ~can,
            groups.cpu_time,
            groups.size_bytes,
            np.ones_like(least),
        ]
        sums = _sums(members, np.stack(columns, axis=1).astype(np.float64))
        order = np.argsort(sums[:, 0], kind="stable")
        self._members, sums = np.ascontiguousarray(members[order]), sums[order]
        words = members.shape[1]
        readers = np.zeros((groups.producer.size, words), np.uint64)
        for t, reading in enumerate(groups.readers):
            for g in reading:
                readers[t, g >> 6] |= np.uint64(1) << np.uint64(g & 63)
        ptr, split = device_chain_kernels.split_outputs(self._members, groups.producer, readers)
        crossing = np.zeros(len(members))
        owner = np.repeat(np.arange(len(members)), np.diff(ptr))
        np.add.at(crossing, owner, groups.transfer_time[split])
        self._outputs = device_chain_kernels.SplitOutputs(
            groups.producer, readers, groups.transfer_time, ptr, split
        )
        self._work = device_chain_kernels.IdealWork(
            least=sums[:, 0].copy(),
            accelerator=sums[:, 1].copy(),
            barred=sums[:, 2].astype(np.int64),
            cpu=sums[:, 3].copy(),
            size_bytes=sums[:, 4].copy(),
            crossing=crossing,
        )
        self._passed = backward_paths(problem, groups.group_of, self._behind)
        self._first, self._last = int(sums[:, 5].argmin()), int(sums[:, 5].argmax())
        self._problem = problem
        self._count = groups.count

    def optimum(self, reading: Reading) -> DeviceChain | None:
        """The chain with the smallest period, and the fewest devices among equals, if there is any.

        Looks for it below ceilings that rise from the least that all devices together need.
        """
        devices = self._problem.max_accelerators + self._problem.max_cpus
        least = float(self._work.least[self._last]) / devices
        share = FIRST_SHARE if least > 0.0 else np.inf
        while share < LAST_SHARE:
            found = self.below(reading, least * (1.0 + share))
            if found is not None:
                return found
            share *= 2.0
        return self.below(reading, np.inf)

    def below(self, reading: Reading, ceiling: float) -> DeviceChain | None:
        """As `optimum`, among chains with a period up to `ceiling`."""
        problem = self._problem
        limits = device_chain_kernels.ChainLimits(
            min(problem.max_accelerators, self._count),
            min(problem.max_cpus, self._count),
            problem.memory_bytes * (1.0 + MEMORY_SLACK),
            reading == "relay",
            reading == "adjacent",
            reading == "between",
        )
        best, came_from = device_chain_kernels.best_chains(
            device_chain_kernels.Ideals(self._members, self._first, self._last),
            self._work,
            self._outputs,
            self._passed,
            device_chain_kernels.GroupPaths(self._before, self._behind),
            limits,
            ceiling * (1.0 + SLACK),
        )
        last = best[:, :, self._last]
        if not np.isfinite(last.min()):
            return None
        # argmin gives the first: fewest accelerators, then fewest CPUs.
        a, p = (int(k) for k in np.unravel_index(last.argmin(), last.shape))
        period, at = float(last[a, p]), self._last
        device_of = np.zeros(self._count, np.int32)
        step_of = np.zeros(self._count, np.int32)
        while a or p:
            step = int(came_from[a, p, at])
            before, on_cpu = step >> 1, step & 1
            a, p = a - (1 - on_cpu), p - on_cpu
            device = problem.max_accelerators + p if on_cpu else a
            own = self._members[at] & ~self._members[before]
            inside = members_of(own[None], self._count)[0]
            device_of[inside], step_of[inside] = device, a + p
            at = before
        return DeviceChain(device_of, step_of, period)


def group_order(groups: DeviceGroups) -> RuleGraph:
    """The groups and their edges as a rule graph."""
    return from_edges(groups.edges[:, 0], groups.edges[:, 1], groups.count, 1)


def _sums(members: Words, columns: Floats) -> Floats:
    """`[I, K]`, sums over each ideal of K columns by group; a thousand ideals at a time."""
    parts = [
        members_of(members[at : at + 1024], len(columns)).astype(np.float64) @ columns
        for at in range(0, len(members), 1024)
    ]
    return np.concatenate(parts)


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
        hand_overs = _hand_overs(best)
        ideals = {0, (1 << groups.count) - 1, *hand_overs}
        for held in hand_overs:
            near = sorted(neighbours(groups, held))
            ideals.update(near[: MOST_SAMPLED_IDEALS // len(hand_overs)])
    return best


def _hand_overs(chain: DeviceChain) -> list[int]:
    """The ideals where one device hands over to the next."""
    order = np.argsort(chain.step_of, kind="stable")
    steps = chain.step_of[order]
    found, held = list[int](), 0
    for at, v in enumerate(order.tolist()):
        if at and steps[at] != steps[at - 1]:
            found.append(held)
        held |= 1 << v
    return found or [held]
