"""Cooling down several walks together, within evaluations and CPU time.

Walks of fabrics are apart from those of packages and hosts: a mapping is one site per unit and one
turn per stream, and moves keep each kind of unit on sites of its kind.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_passes.families.fabric.annealing.walkers import Leg


class Chains(Protocol):
    """Several walks."""

    evaluations: int
    """That they have taken so far."""

    @property
    def costs(self) -> Floats:
        """`[C]`, of the mappings where walks are."""
        ...

    @property
    def best_costs(self) -> Floats:
        """`[C]`, of the best mapping that each has seen."""
        ...

    @property
    def best_mappings(self) -> Mappings:
        """The best mapping that each has seen."""
        ...

    def go(self, evaluations: int, leg: Leg) -> None:
        """All of them walk on, for about this many evaluations together."""
        ...

    def forget(self) -> None:
        """Forget the best that walks have seen so far; the next that they keep is the best."""
        ...

    def join(self, loser: int, winner: int) -> None:
        """A walk goes on from where another one is; it keeps what it has seen itself."""
        ...


@dataclass(frozen=True)
class Cooling:
    """How walks cool down together.

    Attributes:
        hot: temperature at the begin, as a share of the cost.
        cold: at the end; between them geometric.
        legs: after each of which losers join winners.
        joining: share of walks that join others after each leg.
        widest: switches that a unit may go at the begin; 1 at the end.
    """

    hot: float
    cold: float
    legs: int
    joining: float
    widest: float


class Spending(NamedTuple):
    """Evaluations of all walks together, at most, and CPU time from now on, or None."""

    evaluations: int
    left_s: float | None


PILOT = 256
"""Evaluations by which the rate is measured where CPU time is limited."""


def cool_down(chains: Chains, cooling: Cooling, spending: Spending) -> list[tuple[int, float]]:
    """Lets walks cool down; after each leg the worst go on from where the best are.

    Aldous and Vazirani 1994, *"Go with the winners" algorithms*.

    Args:
        chains: the walks.
        cooling: see there.
        spending: what they may take.

    Returns:
        Pairs of evaluations and the best cost by then, ascending.
    """
    history = [(chains.evaluations, float(chains.best_costs.min()))]
    first = Leg(0, cooling.hot, cooling.hot, cooling.widest, cooling.widest)
    evaluations, left_s = spending
    if left_s is not None:
        evaluations = min(evaluations, _affordable(chains, first, left_s))
    left = max(evaluations - chains.evaluations, 0)
    if left == 0:
        return history
    fall = (cooling.cold / cooling.hot) ** (1.0 / cooling.legs)
    close = (1.0 / cooling.widest) ** (1.0 / cooling.legs)
    heat, reach = cooling.hot, cooling.widest
    for number in range(cooling.legs):
        each = max((evaluations - chains.evaluations) // (cooling.legs - number), 0)
        if each == 0:
            continue
        chains.go(each, Leg(0, heat, heat * fall, reach, reach * close))
        heat, reach = heat * fall, reach * close
        _join(chains, cooling.joining)
        history.append((chains.evaluations, float(chains.best_costs.min())))
    return history


def _join(chains: Chains, share: float) -> None:
    order = np.argsort(chains.costs, kind="stable")
    for rank in range(int(share * len(order))):
        chains.join(int(order[-1 - rank]), int(order[rank]))


def _affordable(chains: Chains, leg: Leg, budget_s: float) -> int:
    """Evaluations within a CPU time, which begins now."""
    begin = time.thread_time()
    before = chains.evaluations
    # What is compiled at the first call would spoil the rate.
    chains.go(1, leg)
    timed = time.thread_time()
    warm = chains.evaluations
    chains.go(PILOT, leg)
    now = time.thread_time()
    rate = (chains.evaluations - warm) / max(now - timed, 1e-6)
    return max(before + int(rate * (budget_s - (now - begin))), chains.evaluations)
