"""Search on a coarse step, whose word the simulator of the whole step is asked about now and then.

A walk over pieces of clusters goes this many moves by the coarse step alone; what it finds is one
proposal, which is kept or not by what the whole step says of it. So a hundred simulations of the
whole step decide on thousands of moves, and the coarse step may err as long as it mostly ranks
better from worse (surrogate transitions: Liu 2001, *Monte Carlo Strategies in Scientific
Computing*, 9.4.3. Delayed acceptance: Christen and Fox 2005, *Markov chain Monte Carlo Using an
Approximation*). Both levels cool down together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import Simulate
from mcm_passes.families.box.search.annealing import Cooling, Judge, Moves
from mcm_passes.families.box.search.coarse_steps import PreparedStep, coarse_step, devices_of_units
from mcm_passes.families.box.search.units import Fallbacks, Units

PARTS = 16
"""Into which clusters are divided by depth, after by slack."""

BUCKETS = 480
"""Of coarse steps. With 20, 160 and 480, coarse times over those of the whole step scatter by 2.2,
1.5 and 1.3 % where placements are within 10 % of the best one of NMT with two layers (with eight
layers by 7.2, 3.8 and 2.9), and take 0.29, 0.38 and 0.48 ms to simulate instead of 2.4."""

JUDGED_STARTS = 8
"""Starts that the whole step is asked about, the best of the coarse one."""


@dataclass(eq=False)
class Surrogate:
    """A coarse step that estimates the worth of devices of pieces.

    Attributes:
        step: the whole one.
        units: pieces.
        ways: of groups that may not follow their piece.
        piece_of: `[G]`, the piece of each group.
        evaluator: of the coarse step.
        evaluations: of it, so far.
    """

    step: PreparedStep
    units: Units
    ways: Fallbacks
    piece_of: Ints
    evaluator: StepEvaluator
    evaluations: int = 0

    def score(self, devices: Ints) -> float:
        """The coarse score of devices `[U]`."""
        self.evaluations += 1
        placement = self.ways.placement(devices[self.piece_of])
        return float(self.evaluator.evaluate(placement[None]).score[0])

    def placement(self, devices: Ints) -> Ints:
        """`[N]`, the placement that devices `[U]` stand for."""
        return self.step.ways.placement(devices[self.units.of_op])

    def devices(self, placement: Ints) -> Ints:
        """`[U]`, the devices that come nearest to a placement `[N]`."""
        step = self.step
        return devices_of_units(self.units, placement, step.duration, step.box.num_devices)


def surrogate_of(step: PreparedStep, simulate: Simulate, order: QueueOrder) -> Surrogate:
    """The coarse step of a step.

    Args:
        step: the whole one.
        simulate: makes the evaluator.
        order: of queues.
    """
    units = step.pieces(PARTS)
    coarse = coarse_step(
        step.problem, step.box, units.of_op, step.depth, step.ways.instead, BUCKETS
    )
    evaluator = simulate(coarse.problem, StepConditions(order=order))
    ways = coarse.ways(step.ways)
    return Surrogate(step, units, ways, units.of_op[coarse.first], evaluator)


def coarse_search(
    surrogate: Surrogate,
    judge: Judge,
    starts: Ints,
    cooling: Cooling,
    left: int,
    rng: np.random.Generator,
) -> None:
    """Searches; `judge` has the best placement in the end.

    Args:
        surrogate: estimates worth.
        judge: asks the evaluator of the whole step.
        starts: `[K, N]`, placements, at least one; the search begins at the best. More than there
            are coarse evaluations are left out.
        cooling: of both levels, its evaluations those of the coarse step.
        left: evaluations of the whole step, at least 1; fewer where the coarse ones end earlier.
        rng: draws moves.
    """

    def score(devices: Ints) -> float:
        return float(judge.results(surrogate.placement(devices)[None]).score[0])

    known = [surrogate.devices(start) for start in starts[: cooling.evaluations]]
    coarse = np.array([surrogate.score(devices) for devices in known])
    best = np.argsort(coarse, kind="stable")[: min(JUDGED_STARTS, left)]
    scores = [score(known[k]) for k in best]
    at = int(np.argmin(scores))
    current, worth = Stand(known[best[at]], float(coarse[best[at]])), scores[at]
    left -= len(best)
    units = surrogate.units
    if not len(units.movable) or len(surrogate.step.speeds) < 2:
        return
    moves = Moves(units, surrogate.step.speeds, rng)
    while left > 0 and surrogate.evaluations < cooling.evaluations and not moves.exhausted:
        share = surrogate.evaluations / cooling.evaluations
        heat = cooling.hot * (cooling.cold / cooling.hot) ** share
        count = -(-(cooling.evaluations - surrogate.evaluations) // left)
        proposed = _proposal(surrogate, moves, current, count, heat, rng)
        if proposed is None:
            continue
        found = score(proposed.devices)
        left -= 1
        if found <= worth * (1.0 - heat * np.log(max(rng.random(), 1e-12))):
            current, worth = proposed, found


@dataclass(frozen=True, eq=False)
class Stand:
    """Where a walk is.

    Attributes:
        devices: `[U]`.
        score: of the coarse step.
    """

    devices: Ints
    score: float


def _proposal(
    surrogate: Surrogate,
    moves: Moves,
    begin: Stand,
    count: int,
    heat: float,
    rng: np.random.Generator,
) -> Stand | None:
    """The best that a walk of this many coarse evaluations comes by, but for where it begins."""
    devices, score = begin.devices.copy(), begin.score
    best: Stand | None = None
    ends = surrogate.evaluations + count
    while surrogate.evaluations < ends and not moves.exhausted:
        changed = moves.draw(devices)
        if changed is None:
            continue
        before = devices[changed[0]].copy()
        devices[changed[0]] = changed[1]
        found = surrogate.score(devices)
        if found > score * (1.0 - heat * np.log(max(rng.random(), 1e-12))):
            devices[changed[0]] = before
            continue
        score = found
        if (best is None or found < best.score) and (devices != begin.devices).any():
            best = Stand(devices.copy(), found)
    return best
