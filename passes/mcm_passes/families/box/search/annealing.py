"""Simulated annealing over devices of units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_passes.families.box.search.judge import Judge
from mcm_passes.families.box.search.units import Fallbacks, Units

LONGEST_RUN = 8
"""Parts of a cluster that one move takes along, at most."""


@dataclass(frozen=True)
class Cooling:
    """How a walk cools down.

    Attributes:
        evaluations: of the walk, at most.
        hot: temperature at its begin, as a share of the score.
        cold: at its end; between them geometric.
    """

    evaluations: int
    hot: float = 0.01
    cold: float = 2e-4


def anneal(
    units: Units,
    start: Ints,
    ways: Fallbacks,
    speeds: Floats,
    judge: Judge,
    rng: np.random.Generator,
    cooling: Cooling,
) -> Ints:
    """Walks from a start; the judge remembers the best.

    Kirkpatrick, Gelatt and Vecchi 1983, *Optimization by Simulated Annealing*. Moves are our own:
    a unit, a run of parts of its cluster, or it and a neighbour go to another device, preferably
    one of a neighbour; or two units swap.

    Args:
        units: what moves.
        start: `[U]`, devices.
        ways: of ops that may not follow.
        speeds: `[D]`, how fast devices are; slow ones are proposed rarely.
        judge: of placements.
        rng: draws moves.
        cooling: see there.

    Returns:
        `[U]`, devices of the best placement of this walk.
    """
    devices = start.astype(np.int32)
    begin = judge.evaluations
    current = judge.score(ways.placement(devices[units.of_op]))
    best, best_devices = current, devices.copy()
    if not len(units.movable) or len(speeds) < 2:
        return best_devices
    moves = Moves(units, speeds, rng)
    while judge.may_ask and judge.evaluations - begin < cooling.evaluations:
        changed = moves.draw(devices)
        if changed is None:
            if moves.exhausted:
                break
            continue
        share = (judge.evaluations - begin) / cooling.evaluations
        heat = cooling.hot * (cooling.cold / cooling.hot) ** share
        worth = current * (1.0 - heat * np.log(max(rng.random(), 1e-12)))
        before = devices[changed[0]].copy()
        devices[changed[0]] = changed[1]
        score = judge.score(ways.placement(devices[units.of_op]), worth)
        if score <= worth:
            current = score
            if score < best:
                best, best_devices = score, devices.copy()
        else:
            devices[changed[0]] = before
    return best_devices


_MOST_IDLE = 1000
"""Moves in a row that would change nothing, after which there are none."""


class Moves:
    """Draws moves: which units get which devices.

    Args:
        units: what moves; one that may.
        speeds: `[D]`, how fast devices are; slow ones are proposed rarely.
        rng: draws.
    """

    def __init__(self, units: Units, speeds: Floats, rng: np.random.Generator) -> None:
        self._units, self._rng = units, rng
        self._chances = np.cumsum(speeds / speeds.sum())
        self._idle = 0
        graph = units.neighbours
        # Many small values are as telling as few large ones: roots of bytes are the chances.
        self._sums = np.concatenate([[0.0], np.cumsum(np.sqrt(graph.weight) + 1e-9)])

    @property
    def exhausted(self) -> bool:
        """Whether there seem to be no moves that would change anything."""
        return self._idle > _MOST_IDLE

    def draw(self, devices: Ints) -> tuple[Longs, Ints] | None:
        """Units and their new devices; None for a move that changes nothing or is not allowed."""
        units, rng = self._units, self._rng
        kind = rng.random()
        u = int(units.movable[rng.integers(len(units.movable))])
        moved = np.array([u], np.int64)
        if kind < 0.15:
            other = int(units.movable[rng.integers(len(units.movable))])
            moved = np.array([u, other], np.int64)
            wanted = devices[[other, u]]
        else:
            if kind < 0.5:
                moved = self._run(u, kind < 0.25)
            elif kind < 0.6:
                other = self._neighbour(u)
                if other >= 0 and devices[other] == devices[u]:
                    moved = np.array([u, other], np.int64)
            wanted = np.full(len(moved), self._device(u, devices), np.int32)
        fits = units.may[moved, wanted]
        moved, wanted = moved[fits], wanted[fits]
        if not len(moved) or (devices[moved] == wanted).all():
            self._idle += 1
            return None
        self._idle = 0
        return moved, wanted

    def _run(self, u: int, whole: bool) -> Longs:
        cluster = self._units.cluster
        low = int(np.searchsorted(cluster, cluster[u], "left"))
        high = int(np.searchsorted(cluster, cluster[u], "right"))
        if not whole:
            length = int(self._rng.integers(1, LONGEST_RUN + 1))
            low = max(low, u - int(self._rng.integers(length)))
            high = min(high, low + length)
        return np.arange(low, high)

    def _neighbour(self, u: int) -> int:
        graph = self._units.neighbours
        low, high = self._sums[graph.begin[u]], self._sums[graph.begin[u + 1]]
        if low == high:
            return -1
        at = int(np.searchsorted(self._sums, low + self._rng.random() * (high - low), "right")) - 1
        return int(graph.other[min(at, int(graph.begin[u + 1]) - 1)])

    def _device(self, u: int, devices: Ints) -> int:
        other = self._neighbour(u) if self._rng.random() < 0.4 else -1
        if other >= 0:
            return int(devices[other])
        drawn = int(np.searchsorted(self._chances, self._rng.random(), "right"))
        return min(drawn, len(self._chances) - 1)
