"""An independent check of chip windows and minimum cuts, in plain Python.

Shares no code with the search: ancestors are rows of one matrix, and flows are found path by path.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from mcm_compiler.contracts.partition import Bools, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.bound_checks.plain_need import plain_weights, readers_of

PlainWindows = dict[int, tuple[int, int]]
"""The lowest and the highest chip of each unit that is not clonable."""


def plain_windows(problem: PartitionProblem, period_s: float) -> PlainWindows | None:
    """The chips that each unit can be on below a period; None where some unit has none.

    The argument is that of `chip_windows`: chips are filled from both ends, with all ancestors as
    sand, along paths, and past units that all other ancestors come before or after.
    """
    above, edges = closure_of(problem)
    fixed = np.flatnonzero(~problem.clonable).tolist()
    work = problem.compute_s.tolist()
    room = [0.0] * problem.num_units
    for weight in plain_weights(problem):
        if len(weight.users) == 1 and not problem.streams:
            room[weight.users[0]] += weight.room
    chips = problem.num_chips
    seconds = (problem.chip_speed * period_s).tolist()
    sram = [float(size) for size in problem.limits.sram_bytes]
    pins = problem.pinned_chip.tolist()
    backward = [-1 if pin < 0 else chips - 1 - pin for pin in pins]
    turned = [(v, u) for u, v in edges]
    windows: PlainWindows = dict.fromkeys(fixed, (0, chips - 1))
    for own, capacity in ((work, seconds), (room, sram)):
        forward = _fill(fixed, edges, above, own, capacity, pins)
        from_end = _fill(fixed[::-1], turned, above.T, own, capacity[::-1], backward)
        for v in fixed:
            (low, load), (other, load_from_end) = forward[v], from_end[v]
            both = load + load_from_end - own[v]
            high = chips - 1 - other
            if low == high and both > capacity[low] * (1.0 + 1e-12):
                return None
            windows[v] = max(windows[v][0], low), min(windows[v][1], high)
    if any(low > high for low, high in windows.values()):
        return None
    return windows


def crosses_at_least(
    problem: PartitionProblem, windows: PlainWindows, link: int, least: float
) -> bool:
    """Whether at least so many bytes cross the link after chip `link`, wherever units are.

    By a flow: units that must be up to the link send, units that must be beyond receive, and each
    tensor passes on as many bytes as it has.
    """
    sources = [v for v, (_, high) in windows.items() if high <= link]
    sinks = {v for v, (low, _) in windows.items() if low > link}
    if not sources or not sinks:
        return False
    network = _Network(problem)
    flow = 0.0
    while flow < least:
        steps = network.path(sources, sinks)
        if not steps:
            return False
        pushed = network.push(steps)
        if math.isinf(pushed):
            return True
        flow += pushed
    return True


class _Network:
    """Units and tensors as nodes; what a tensor passes on to other units is at most its size."""

    def __init__(self, problem: PartitionProblem) -> None:
        self._capacity: dict[tuple[int, int], float] = {}
        self._near: dict[int, list[int]] = {}
        for t, u in enumerate(problem.tensor_producer.tolist()):
            if u < 0 or problem.clonable[u]:
                continue
            tensor = problem.num_units + t
            self._connect(u, tensor, float(problem.tensor_bytes[t]))
            for v in readers_of(problem, t):
                self._connect(tensor, v, math.inf)
                self._connect(v, u, math.inf)

    def _connect(self, a: int, b: int, size: float) -> None:
        for x, y, room in ((a, b, size), (b, a, 0.0)):
            if (x, y) not in self._capacity:
                self._capacity[x, y] = 0.0
                self._near.setdefault(x, []).append(y)
            self._capacity[x, y] += room

    def path(self, sources: list[int], sinks: set[int]) -> list[tuple[int, int]]:
        """The arcs of a shortest path with room, from its end on; empty where there is none."""
        came_from = dict.fromkeys(sources, -1)
        queue = deque(sources)
        while queue:
            x = queue.popleft()
            for y in self._near.get(x, []):
                if y in came_from or self._capacity[x, y] <= 0.0:
                    continue
                came_from[y] = x
                queue.append(y)
                if y in sinks:
                    return _arcs_to(y, came_from)
        return []

    def push(self, steps: list[tuple[int, int]]) -> float:
        """Fills a path with what its arcs have room for; infinite where they have no end."""
        pushed = min(self._capacity[step] for step in steps)
        if not math.isinf(pushed):
            for x, y in steps:
                self._capacity[x, y] -= pushed
                self._capacity[y, x] += pushed
        return pushed


def _arcs_to(end: int, came_from: dict[int, int]) -> list[tuple[int, int]]:
    path = [end]
    while came_from[path[-1]] >= 0:
        path.append(came_from[path[-1]])
    return list(zip(path[1:], path, strict=False))


def _fill(
    order: list[int],
    edges: list[tuple[int, int]],
    before: Bools,
    own: list[float],
    capacity: list[float],
    pins: list[int],
) -> dict[int, tuple[int, float]]:
    """The first chip that each unit can be on, and what is on it then.

    The chip is the number of chips where there is none.
    """
    leads: dict[int, list[int]] = {v: [] for v in order}
    for u, v in edges:
        leads[v].append(u)
    state: dict[int, tuple[int, float]] = {}
    ordered = np.array(order, np.int64)
    count = before.sum(axis=1)
    amounts = np.array(own)
    for v in order:
        earlier = ordered[before[v, ordered]][::-1]
        best = max(
            [
                _pour((0, 0.0), float(amounts[earlier].sum()), capacity),
                *(state[u] for u in leads[v]),
            ]
        )
        # The nearest unit that all other ancestors come before or after.
        left = earlier.size - 1 - np.arange(earlier.size)
        for i in np.flatnonzero(count[earlier] == left).tolist():
            if before[earlier[:i], earlier[i]].all():
                between = float(amounts[earlier[:i]].sum())
                best = max(best, _pour(state[int(earlier[i])], between, capacity))
                break
        chip, load = max(best, (pins[v], 0.0))
        while chip < len(capacity) and load + own[v] >= capacity[chip] * (1.0 + 1e-12):
            chip, load = chip + 1, 0.0
        state[v] = (chip, load + own[v])
    return state


def _pour(start: tuple[int, float], amount: float, capacity: list[float]) -> tuple[int, float]:
    chip, load = start[0], start[1] + amount
    while chip < len(capacity) and load > capacity[chip]:
        load -= capacity[chip]
        chip += 1
    return chip, load


def closure_of(problem: PartitionProblem) -> tuple[Bools, list[tuple[int, int]]]:
    """`[N, N]`, True where the second unit comes before the first; and the edges."""
    source, target = dependency_edges(problem)
    edges = sorted(set(zip(source.tolist(), target.tolist(), strict=True)), key=lambda e: e[::-1])
    above = np.zeros((problem.num_units, problem.num_units), np.bool_)
    for u, v in edges:
        above[v] |= above[u]
        above[v, u] = True
    return above, edges
