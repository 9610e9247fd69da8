"""Several walks by one formula, compiled."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_passes.families.fabric.annealing.moves import MoveShares
from mcm_passes.families.fabric.annealing.walks import Leg, Walker, walk
from mcm_passes.families.fabric.formulas.formula import Formula, evaluate
from mcm_passes.families.fabric.formulas.prepared import room_of
from mcm_passes.families.fabric.routing.trees import routed


class Walkers:
    """C walks, each of its own state; see `chains.Chains` for what its methods are for."""

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
        """What cost that."""
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
        """What walks have seen so far is no longer their best."""
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
