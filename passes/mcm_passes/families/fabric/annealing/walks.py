"""A walk that cools down, compiled with the formula that it follows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_passes.families.fabric.annealing.moves import MoveShares, draw, uniform
from mcm_passes.families.fabric.formulas.formula import Formula, Room, evaluate
from mcm_passes.families.fabric.routing.trees import Routed, flip, move


class Walker(NamedTuple):
    """Where a walk is, and the best that it has seen; kernels change it in place.

    Attributes:
        state: the mapping and its loads.
        room: for evaluations.
        rng: `[1]`, see `moves.uniform`.
        cost: `[2]`, of the mapping, and of the best one.
        best_site: `[U]`, of the best mapping.
        best_turn: `[E]`.
    """

    state: Routed
    room: Room
    rng: np.ndarray
    cost: Floats
    best_site: Ints
    best_turn: Ints


class Leg(NamedTuple):
    """A part of a walk, through which temperature and reach fall geometrically.

    Attributes:
        steps: moves that are tried.
        hot: temperature at its begin, as a share of the cost.
        cold: at its end.
        wide: switches that a unit may go at its begin.
        narrow: at its end.
    """

    steps: int
    hot: float
    cold: float
    wide: float
    narrow: float


@entry_njit
def walk(formula: Formula, walker: Walker, shares: MoveShares, leg: Leg) -> int:
    """Metropolis et al. 1953: a move is kept if it costs little enough, by chance and temperature.

    Returns:
        Moves that were kept.
    """
    tables = formula.tables
    state, room, rng = walker.state, walker.room, walker.rng
    drawn = np.empty(2, np.int32)
    cooling = (leg.cold / leg.hot) ** (1.0 / max(leg.steps, 1))
    closing = (leg.narrow / leg.wide) ** (1.0 / max(leg.steps, 1))
    heat, reach = leg.hot, leg.wide
    current, best = walker.cost[0], walker.cost[1]
    kept = 0
    for _ in range(leg.steps):
        heat *= cooling
        reach *= closing
        draw(tables, state.site, rng, shares, reach, drawn)
        unit, place = int(drawn[0]), int(drawn[1])
        before = place
        if unit < 0:
            flip(tables, state, place)
        else:
            before = int(state.site[unit])
            move(tables, state, unit, place)
        cost = evaluate(formula, state, room)
        if cost <= current * (1.0 - heat * math.log(1.0 - uniform(rng))):
            current = cost
            kept += 1
            if cost < best:
                best = cost
                walker.best_site[:] = state.site
                walker.best_turn[:] = state.turn
        elif unit < 0:
            flip(tables, state, place)
        else:
            move(tables, state, unit, before)
    walker.cost[0], walker.cost[1] = current, best
    return kept
