"""An independent check of chip windows and minimum cuts.

Shares no code with the search: ancestors are rows of one matrix, and flows follow shortest paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Bools, Floats, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.bound_checks.plain_need import plain_weights, readers_of

PlainWindows = dict[int, tuple[int, int]]
"""The lowest and the highest chip of each unit that is not clonable."""


def plain_windows(problem: PartitionProblem, period_s: float) -> PlainWindows | None:
    """The chips that each unit can be on below a period; None where some unit has none.

    The argument is that of `chip_windows`: chips are filled from both ends, with all ancestors as
    sand, along paths, and past units that all other ancestors come before or after.
    """
    fixed, above, edges = closure_of(problem)
    along = list(range(fixed.size))
    work = problem.compute_s[fixed].tolist()
    room = np.zeros(problem.num_units)
    for weight in plain_weights(problem):
        if len(weight.users) == 1 and not problem.streams:
            room[weight.users[0]] += weight.room
    chips = problem.num_chips
    seconds = (problem.chip_speed * period_s).tolist()
    sram = [float(size) for size in problem.limits.sram_bytes]
    pins = problem.pinned_chip[fixed].tolist()
    backward = [-1 if pin < 0 else chips - 1 - pin for pin in pins]
    turned = [(v, u) for u, v in edges]
    windows = [(0, chips - 1)] * fixed.size
    for own, capacity in ((work, seconds), (room[fixed].tolist(), sram)):
        forward = _fill(along, edges, above, own, capacity, pins)
        from_end = _fill(along[::-1], turned, above.T, own, capacity[::-1], backward)
        for v in along:
            (low, load), (other, load_from_end) = forward[v], from_end[v]
            both = load + load_from_end - own[v]
            high = chips - 1 - other
            if low == high and both > capacity[low] * (1.0 + 1e-12):
                return None
            windows[v] = max(windows[v][0], low), min(windows[v][1], high)
    found = dict(zip(fixed.tolist(), windows, strict=True))
    return None if any(low > high for low, high in windows) else found


def crosses_at_least(
    problem: PartitionProblem, windows: PlainWindows, link: int, least: float
) -> bool:
    """Return whether at least this many bytes cross the link after chip `link`, wherever units are.

    By a flow: units that must be up to the link send, units that must be beyond receive, and each
    tensor passes on as many bytes as it has.
    """
    sources = [v for v, (_, high) in windows.items() if high <= link]
    sinks = [v for v, (low, _) in windows.items() if low > link]
    if not sources or not sinks:
        return False
    arcs: list[tuple[int, int, float]] = []
    for t, u in enumerate(problem.tensor_producer.tolist()):
        if u >= 0 and not problem.clonable[u]:
            tensor = problem.num_units + t
            arcs.append((u, tensor, float(problem.tensor_bytes[t])))
            for v in readers_of(problem, t):
                arcs += [(tensor, v, np.inf), (v, u, np.inf)]
    vertices = problem.num_units + len(problem.tensor_bytes)
    side = np.zeros(vertices, np.int8)
    side[sources], side[sinks] = 1, 2
    return network_of(arcs, vertices).carries(side, least)


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


def closure_of(problem: PartitionProblem) -> tuple[Longs, Bools, list[tuple[int, int]]]:
    """Which of n units with a place of their own come before which.

    Returns:
        `[n]`, those units; `[n, n]`, True where the second of them comes before the first; and the
        edges between them, by their numbers among them.
    """
    fixed = np.flatnonzero(~problem.clonable)
    ends = np.searchsorted(fixed, np.stack(dependency_edges(problem)))
    edges = sorted(set(zip(*ends.tolist(), strict=True)), key=lambda e: e[::-1])
    above = np.zeros((fixed.size, fixed.size), np.bool_)
    for u, v in edges:
        above[v] |= above[u]
        above[v, u] = True
    return fixed, above, edges


class Network(NamedTuple):
    """A arcs in both directions between vertices.

    Attributes:
        ptr: CSR of the arcs that leave each vertex.
        head: `[A]`, where each arc leads to.
        back: `[A]`, the arc of the opposite direction.
        room: `[A]`, the most that an arc carries.
    """

    ptr: Longs
    head: Longs
    back: Longs
    room: Floats

    def carries(self, side: np.ndarray, least: float) -> bool:
        """Return True if this much gets from vertices of side 1 to those of side 2."""
        return bool(_carries(self.ptr, self.head, self.back, self.room.copy(), side, least))


def network_of(arcs: list[tuple[int, int, float]], vertices: int) -> Network:
    """The network of arcs from one vertex to another, with their space."""
    tail, head = np.array([arc[:2] for arc in arcs], np.int64).reshape(-1, 2).T
    room = np.array([arc[2] for arc in arcs], np.float64)
    tails, count = np.concatenate([tail, head]), len(arcs)
    order = np.argsort(tails, kind="stable")
    place = np.empty(2 * count, np.int64)
    place[order] = np.arange(2 * count)
    return Network(
        np.searchsorted(tails[order], np.arange(vertices + 1)),
        np.concatenate([head, tail])[order],
        np.concatenate([place[count:], place[:count]])[order],
        np.concatenate([room, np.zeros(count)])[order],
    )


@entry_njit
def _carries(
    ptr: Longs, head: Longs, back: Longs, room: Floats, side: np.ndarray, least: float
) -> bool:
    """Return True if `least` flows from vertices of side 1 to those of side 2; uses up `room`."""
    came_by = np.empty(side.size, np.int64)
    queue = np.empty(side.size, np.int64)
    flow = 0.0
    while flow < least:
        end = 0
        for x in range(side.size):
            came_by[x] = -1
            if side[x] == 1:
                queue[end] = x
                end += 1
        reached, first = -1, 0
        while first < end and reached < 0:
            x = queue[first]
            first += 1
            for e in range(ptr[x], ptr[x + 1]):
                y = head[e]
                if room[e] > 0.0 and side[y] != 1 and came_by[y] < 0:
                    came_by[y] = e
                    queue[end] = y
                    end += 1
                    if side[y] == 2:
                        reached = y
                        break
        if reached < 0:
            return False
        pushed, y = np.inf, reached
        while side[y] != 1:
            pushed = min(pushed, room[came_by[y]])
            y = head[back[came_by[y]]]
        if pushed == np.inf:
            return True
        flow += pushed
        y = reached
        while side[y] != 1:
            e = came_by[y]
            room[e] -= pushed
            room[back[e]] += pushed
            y = head[back[e]]
    return True
