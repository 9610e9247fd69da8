"""Several walks by a model that answers for batches: anyone's, a network's among them.

A walk that refuses most moves proposes several at once and takes the first that it would have kept,
which is what it had done one by one; so batches stay full as walks become few and cold.
"""

from __future__ import annotations

import math

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_passes.families.fabric.annealing.measured import asked_costs
from mcm_passes.families.fabric.annealing.walkers import Leg, MoveShares, draw, uniform
from mcm_passes.families.fabric.routing_trees import Tables

MOST_AT_ONCE = 16
"""Moves that one walk proposes at once, at most."""


class BatchedWalks:
    """C walks of one model; see `chains.Chains` for what its methods are for."""

    def __init__(
        self,
        model: PreparedMappingModel,
        tables: Tables,
        starts: Mappings,
        shares: MoveShares,
        rng: np.random.Generator,
    ) -> None:
        self._model, self._tables, self._shares = model, tables, shares
        self._site = np.array(starts.site, np.int32)
        self._turn = np.array(starts.turn, np.int32)
        count = len(starts)
        self._holder = np.full((count, len(tables.grid.row)), -1, np.int32)
        units = np.arange(self._site.shape[1], dtype=np.int32)
        self._holder[np.arange(count)[:, None], self._site] = units
        self._rng = rng.integers(1, 2**63, (count, 1)).astype(np.uint64)
        self.costs = asked_costs(model, starts).copy()
        self.best_costs = self.costs.copy()
        self._best_site, self._best_turn = self._site.copy(), self._turn.copy()
        self._at_once = 1
        self.evaluations = count

    @property
    def best_mappings(self) -> Mappings:
        """The best that each walk has seen."""
        return Mappings(self._best_site.copy(), self._best_turn.copy())

    def go(self, evaluations: int, leg: Leg) -> None:
        """All of them walk on; batches are as large as most moves are refused."""
        count, spent, kept = len(self._site), 0, 0
        drawn = np.empty((count * MOST_AT_ONCE, 2), np.int32)
        while spent < evaluations:
            each = self._at_once
            share = spent / evaluations
            heat = leg.hot * (leg.cold / leg.hot) ** share
            reach = leg.wide * (leg.narrow / leg.wide) ** share
            site = np.repeat(self._site, each, axis=0)
            turn = np.repeat(self._turn, each, axis=0)
            _propose(self._tables, self._holder, self._rng, self._shares, reach, site, turn, drawn)
            costs = asked_costs(self._model, Mappings(site, turn))
            taken = _choose(self.costs, costs, self._rng, heat)
            self._take(taken, costs, site, turn)
            spent += len(costs)
            kept += int(np.sum(taken >= 0))
            rounds = spent / (count * each)
            share_kept = max(kept / (rounds * count), 1e-3)
            self._at_once = int(np.clip(round(0.5 * each / share_kept), 1, MOST_AT_ONCE))
        self.evaluations += spent

    def forget(self) -> None:
        """What walks have seen so far is no longer their best."""
        self.best_costs[:] = np.inf

    def join(self, loser: int, winner: int) -> None:
        """A walk goes on from where another one is; it keeps what it has seen itself."""
        for array in (self._site, self._turn, self._holder, self.costs):
            array[loser] = array[winner]

    def _take(self, taken: Ints, costs: Floats, site: Ints, turn: Ints) -> None:
        """Walks go where they chose to."""
        walks = np.flatnonzero(taken >= 0)
        rows = taken[walks]
        before = self._site[walks]
        self._site[walks], self._turn[walks] = site[rows], turn[rows]
        units = np.arange(site.shape[1], dtype=np.int32)
        self._holder[walks[:, None], before] = -1
        self._holder[walks[:, None], site[rows]] = units
        self.costs[walks] = costs[rows]
        better = walks[self.costs[walks] < self.best_costs[walks]]
        self.best_costs[better] = self.costs[better]
        self._best_site[better], self._best_turn[better] = self._site[better], self._turn[better]


@entry_njit
def _propose(
    tables: Tables,
    holder: Ints,
    rng: np.ndarray,
    shares: MoveShares,
    reach: float,
    site: Ints,
    turn: Ints,
    drawn: Ints,
) -> None:
    """Changes each row of `site[B, U]` and `turn[B, E]` by a move; rows of a walk lie together."""
    each = len(site) // len(holder)
    for row in range(len(site)):
        chain = row // each
        move = drawn[row]
        draw(tables, site[row], rng[chain], shares, reach, move)
        unit, place = move[0], move[1]
        if unit < 0:
            turn[row, place] = 1 - turn[row, place]
            continue
        other = holder[chain, place]
        if other >= 0:
            site[row, other] = site[row, unit]
        site[row, unit] = place


@entry_njit
def _choose(current: Floats, costs: Floats, rng: np.ndarray, heat: float) -> Ints:
    """`[C]`, the first proposal that each walk keeps; -1 for none."""
    each = len(costs) // len(current)
    taken = np.full(len(current), -1, np.int32)
    for chain in range(len(current)):
        for row in range(chain * each, (chain + 1) * each):
            worth = current[chain] * (1.0 - heat * math.log(1.0 - uniform(rng[chain])))
            if costs[row] <= worth:
                taken[chain] = row
                break
    return taken
