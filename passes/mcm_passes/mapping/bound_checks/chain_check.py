"""An independent check of `chain_of_units`, in linear time and by another algorithm.

Shares no code with the search. Articulation units are found by taking units off the graph in the
order in which they become ready, from both ends. The search sweeps over positions or sums
ancestors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges

ENDS = 4
"""Beginnings that are tried, and ends: those with the most readers, or with the most to read."""


@dataclass(frozen=True)
class _Graph:
    units: list[int]
    following: dict[int, list[int]]
    leading: dict[int, list[int]]

    def reversed(self) -> _Graph:
        return _Graph(self.units[::-1], self.leading, self.following)

    def only(self, kept: set[int]) -> _Graph:
        return _Graph(
            [u for u in self.units if u in kept],
            {u: [v for v in self.following[u] if v in kept] for u in kept},
            {u: [v for v in self.leading[u] if v in kept] for u in kept},
        )


def chain_does_not_fit(problem: PartitionProblem, period_s: float) -> bool:
    """Return whether articulation units and the work between them need more chips than there are.

    Below the period: units that all other work comes before or after are put on chips one by one,
    what is between them is poured in like sand, always as early as possible. Articulation units
    are those of the whole graph, and of what is on paths from one beginning to one end, for a few
    of these; what is left out only helps. Takes O(N + E).
    """
    source, target = dependency_edges(problem)
    fixed = [u for u, clonable in enumerate(problem.clonable.tolist()) if not clonable]
    graph = _Graph(fixed, {u: [] for u in fixed}, {u: [] for u in fixed})
    for u, v in set(zip(source.tolist(), target.tolist(), strict=True)):
        graph.following[u].append(v)
        graph.leading[v].append(u)
    work: list[float] = problem.compute_s.tolist()
    room = [float(speed) * period_s for speed in problem.chip_speed]
    if not _fits(graph, work, room):
        return True
    for begin in _ends(graph):
        forward = graph.only(_reached(graph, begin))
        if math.fsum(work[u] for u in forward.units) < max(room):
            continue
        for end in _ends(forward.reversed()):
            between = forward.only(_reached(forward.reversed(), end))
            if not _fits(between, work, room):
                return True
    return False


def _ends(graph: _Graph) -> list[int]:
    """Units that read nothing, those with the most readers first."""
    free = [u for u in graph.units if not graph.leading[u]]
    return sorted(free, key=lambda u: -len(graph.following[u]))[:ENDS]


def _reached(graph: _Graph, begin: int) -> set[int]:
    reached, stack = {begin}, [begin]
    while stack:
        for v in graph.following[stack.pop()]:
            if v not in reached:
                reached.add(v)
                stack.append(v)
    return reached


def _fits(graph: _Graph, work: list[float], room: list[float]) -> bool:
    """Return whether the chain of the graph's articulation units can be laid on the chips."""
    before = _alone(graph, work)
    after = _alone(graph.reversed(), work)
    heavy = sum(work[u] > 0.0 for u in graph.units)
    articulation_units = [
        u for u in before if u in after and before[u][0] + after[u][0] + 1 == heavy
    ]
    chip, load, done = 0, 0.0, 0.0
    # What comes after the last articulation unit is sand as well.
    for u in [*articulation_units, -1]:
        reached_s = before[u][1] if u >= 0 else math.fsum(work[v] for v in graph.units)
        load += max(reached_s - done, 0.0) * (1.0 - 1e-12)
        while chip < len(room) and load > room[chip] * (1.0 + 1e-12):
            load -= room[chip]
            chip += 1
        own = work[u] if u >= 0 else 0.0
        while chip < len(room) and load + own > room[chip] * (1.0 + 1e-12):
            chip, load = chip + 1, 0.0
        if chip == len(room):
            return False
        load += own
        done = reached_s + own
    return True


def _alone(graph: _Graph, work: list[float]) -> dict[int, tuple[int, float]]:
    """Units with work that are at some time the only ready one, with what was taken before.

    Units are taken off the graph once all that they read is gone, those without work at once.
    Where one alone is ready, all that are left descend from it: each of them waits for something
    that is ready. A unit that all other work comes before or after cannot be missed: nothing is
    ready next to it.

    Returns:
        For each the number of units with work that were taken before it, and their work.
    """
    missing = {u: len(graph.leading[u]) for u in graph.units}
    ready = [u for u in graph.units if not missing[u]]
    held: list[int] = []
    taken, done = 0, 0.0
    alone: dict[int, tuple[int, float]] = {}
    while ready or held:
        while ready:
            u = ready.pop()
            if work[u] > 0.0:
                held.append(u)
                continue
            for v in graph.following[u]:
                missing[v] -= 1
                if not missing[v]:
                    ready.append(v)
        if not held:
            break
        if len(held) == 1:
            alone[held[0]] = (taken, done)
        u = held.pop()
        taken += 1
        done += work[u]
        for v in graph.following[u]:
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return alone
