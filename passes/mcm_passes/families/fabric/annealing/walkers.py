"""Several walks: by a formula, compiled, or by a model that answers for batches.

All of them keep mappings legal. In batches, a walk that refuses most moves proposes several at once
and takes the first that it would have kept. The result is that of proposals one by one, and batches
stay full as walks become few and cold. Randomness is a generator of its own, so that a walk is the
same wherever it runs: xorshift64* (Vigna 2016, *An experimental exploration of Marsaglia's xorshift
generators, scrambled*).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit, lean_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import IO, Mappings
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_passes.families.fabric.annealing.measured import asked_costs
from mcm_passes.families.fabric.formulas.analytic import Formula, Room, evaluate, room_of
from mcm_passes.families.fabric.routing_trees import Routed, Tables, flip, move, routed


class Walkers:
    """C walks, each of its own state; see `annealing.Chains` for what its methods are for."""

    def __init__(
        self, formula: Formula, starts: Mappings, shares: MoveShares, rng: np.random.Generator
    ) -> None:
        self._formula, self._shares = formula, shares
        self._walkers = [
            _walker(formula, starts[k], np.uint64(rng.integers(1, 2**63)))
            for k in range(len(starts))
        ]
        self.evaluations = len(starts)

    @property
    def costs(self) -> Floats:
        """`[C]`, where walks are."""
        return np.array([walker.cost[0] for walker in self._walkers])

    @property
    def best_costs(self) -> Floats:
        """`[C]`, the best that each has seen."""
        return np.array([walker.cost[1] for walker in self._walkers])

    @property
    def best_mappings(self) -> Mappings:
        """The mappings with these costs."""
        return Mappings(
            np.stack([walker.best_site for walker in self._walkers]),
            np.stack([walker.best_turn for walker in self._walkers]),
        )

    def go(self, evaluations: int, leg: Leg) -> None:
        """All of them walk on."""
        steps = max(evaluations // len(self._walkers), 1)
        for walker in self._walkers:
            walk(self._formula, walker, self._shares, leg._replace(steps=steps))
        self.evaluations += steps * len(self._walkers)

    def forget(self) -> None:
        """Forgets the best mappings that walks have seen so far."""
        for walker in self._walkers:
            walker.cost[1] = np.inf

    def join(self, loser: int, winner: int) -> None:
        """A walk goes on from where another one is; it keeps what it has seen itself."""
        ours, theirs = self._walkers[loser], self._walkers[winner]
        for mine, other in zip(ours.state, theirs.state, strict=True):
            mine[:] = other
        ours.cost[0] = theirs.cost[0]


def _walker(formula: Formula, start: Mappings, seed: np.uint64) -> Walker:
    state, room = routed(formula.tables, start), room_of(formula)
    cost = evaluate(formula, state, room)
    return Walker(
        state,
        room,
        np.array([seed], np.uint64),
        np.array([cost, cost]),
        state.site.copy(),
        state.turn.copy(),
    )


_TWELVE, _SEVEN, _FIVE = np.uint64(12), np.uint64(27), np.uint64(25)
_FACTOR, _ELEVEN = np.uint64(2685821657736338717), np.uint64(11)
_TRIES = 8


class MoveShares(NamedTuple):
    """How often which move is drawn.

    Attributes:
        turn: share of moves that turn a stream the other way.
        near: share of the other moves that go near a unit with which the moved one has a stream.
    """

    turn: float
    near: float


@lean_njit
def uniform(rng: np.ndarray) -> float:
    """The next number in [0, 1); `rng` is `[1]`, 64 unsigned bits, never 0."""
    x = rng[0]
    x ^= x >> _TWELVE
    x ^= x << _FIVE
    x ^= x >> _SEVEN
    rng[0] = x
    return ((x * _FACTOR) >> _ELEVEN) * (1.0 / 9007199254740992.0)


@lean_inner_njit
def below(rng: np.ndarray, count: int) -> int:
    """An integer from 0 to `count - 1`."""
    return min(int(uniform(rng) * count), count - 1)


@lean_njit
def draw(
    tables: Tables, site: Ints, rng: np.ndarray, shares: MoveShares, reach: float, drawn: Ints
) -> None:
    """Draws a move.

    Args:
        tables: of the problem.
        site: `[U]`, where units are.
        rng: see `uniform`.
        shares: see there.
        reach: how many switches away a unit may go, in rows and in columns.
        drawn: `[2]`, filled here with a unit and the site that it goes to, or -1 and a stream.
    """
    streams = tables.streams
    if uniform(rng) < shares.turn:
        drawn[0], drawn[1] = -1, below(rng, len(streams.source))
        return
    unit = below(rng, len(streams.kind))
    around, wide = int(site[unit]), max(int(reach), 1)
    if uniform(rng) < shares.near:
        around, wide = int(site[_partner(tables, unit, rng)]), min(wide, 2)
    drawn[0], drawn[1] = unit, _near(tables, unit, int(site[unit]), around, wide, rng)


@lean_inner_njit
def _partner(tables: Tables, unit: int, rng: np.ndarray) -> int:
    """A unit at another end of one of a unit's streams."""
    streams = tables.streams
    at = streams.unit_ptr[unit] + below(
        rng, int(streams.unit_ptr[unit + 1] - streams.unit_ptr[unit])
    )
    stream = streams.touching[at]
    leaves = int(streams.leaf_ptr[stream + 1] - streams.leaf_ptr[stream])
    if streams.source[stream] != unit:
        return int(streams.source[stream])
    return int(streams.leaf[streams.leaf_ptr[stream] + below(rng, leaves)])


@lean_inner_njit
def _near(tables: Tables, unit: int, own: int, around: int, wide: int, rng: np.ndarray) -> int:
    """A site of a unit's kind within a window around a site, or anywhere where none is found."""
    grid = tables.grid
    kind = tables.streams.kind[unit]
    row, col = grid.row[around], grid.col[around]
    for _ in range(_TRIES):
        r = row + below(rng, 2 * wide + 1) - wide
        # I/O sites are in two columns alone.
        c = below(rng, 2) * (grid.cols - 1) if kind == IO else col + below(rng, 2 * wide + 1) - wide
        if 0 <= r < grid.rows and 0 <= c < grid.cols:
            place = grid.site_at[kind, r * grid.cols + c]
            if place >= 0 and place != own:
                return int(place)
    first = int(grid.site_ptr[kind])
    return int(grid.sites[first + below(rng, int(grid.site_ptr[kind + 1]) - first)])


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


MOST_AT_ONCE = 16
"""Moves that one walk proposes at once, at most."""


class BatchedWalks:
    """C walks of one model; see `annealing.Chains` for what its methods are for."""

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
        """Forgets the best mappings that walks have seen so far."""
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
