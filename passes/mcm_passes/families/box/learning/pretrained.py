"""The pre-trained policy, then a search that begins with what it says.

The search is on a coarse step, and asks the simulator of the whole step now and then. A walk over
pieces of clusters goes this many moves by the coarse step alone. What it finds is one proposal,
which is kept or not by what the whole step says of it. So a hundred simulations of the whole step
decide on thousands of moves, and the coarse step may err as long as it mostly ranks better from
worse. These are surrogate transitions (Liu 2001, *Monte Carlo Strategies in Scientific Computing*,
9.4.3) with delayed acceptance (Christen and Fox 2005, *Markov chain Monte Carlo Using an
Approximation*). Both levels cool down together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest, Simulate
from mcm_compiler.text.option_fields import at_least, checked
from mcm_models.cluster_policy.decoding import Scorer, decode, scorer_of
from mcm_models.cluster_policy.layout import PLACEMENT_POLICIES, SHIPPED_PLACEMENT_POLICY
from mcm_passes.families.box.learning.cases import ClusteredStep, clustered_step
from mcm_passes.families.box.search.annealing import Cooling, Judge, Moves, judge_of
from mcm_passes.families.box.search.coarse_steps import (
    PreparedStep,
    coarse_step,
    devices_of_units,
    prepared,
)
from mcm_passes.families.box.search.units import Fallbacks, Units

PARTS = 16
"""Into which clusters are divided by depth, after by slack."""

BUCKETS = 480
"""Of coarse steps. With 20, 160 and 480, coarse times over those of the whole step scatter by 2.2,
1.5 and 1.3 % for placements within 10 % of the best one of NMT with two layers. With eight layers
they scatter by 7.2, 3.8 and 2.9 %. They take 0.29, 0.38 and 0.48 ms to simulate instead of 2.4."""

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


SHARE_DRAWN = 0.25
"""Of the evaluations, those of placements that are drawn from the policy before the search."""


def first_devices(
    case: ClusteredStep, scorer: Scorer | None, count: int, rng: np.random.Generator
) -> Ints:
    """`[count, C]`, where a search may begin.

    First what the policy says at once, then what it draws. The control has all clusters on the
    quickest device, and draws evenly.

    Args:
        case: what is placed.
        scorer: the policy, or None for the control.
        count: at least 1.
        rng: of the draws.
    """
    clusters, devices = case.graph.allowed.shape
    if scorer is None:
        quickest = int(case.graph.work.sum(axis=0).argmin())
        said = np.full((1, clusters), quickest, np.int32)
        drawn = rng.integers(0, devices, (count - 1, clusters)).astype(np.int32)
    else:
        said = decode(case.graph, scorer, 1, rng, greedy=True).devices
        drawn = decode(case.graph, scorer, count - 1, rng).devices
    return np.concatenate([said, drawn])


@dataclass(frozen=True)
@checked(evaluations=at_least(1), parts=at_least(0), coarse=at_least(0))
class Pretrained:
    """A policy that was trained on other models and boxes, and a search that begins with its word.

    The search goes over pieces of clusters on a coarse step, and asks about the whole one now and
    then. Without coarse evaluations, or where the request makes no evaluators, there is no search:
    the best of what the policy says is the answer.

    Attributes:
        policy: checkpoint; empty for the one that comes with the compiler, `none` for the control:
            the same search without a policy.
        evaluations: placements that are simulated, if the request allows as many.
        parts: into which clusters are divided by depth, after one by how long ops may wait; 0 for
            whole clusters.
        coarse: evaluations of a coarse step, which has fewer ops by an order of magnitude; given in
            the figures of the answer, next to those of the whole step.
    """

    name: ClassVar[str] = "pretrained"
    summary: ClassVar[str] = "a policy trained on other models, then a search on a coarse step"
    searches: ClassVar[bool] = True

    policy: str = ""
    evaluations: int = 100
    parts: int = 0
    coarse: int = 4000

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """See `mcm_compiler.contracts.boxes.placers.Placer`; it takes no heed of `budget_s`.

        Raises:
            CompileError: MCM-D060 for scores that are no numbers, MCM-D065 for a policy that cannot
                be used.
        """
        scorer = self._scorer()
        problem, box = request.problem, request.box
        case = clustered_step(problem, box, request.evaluator, self.parts)
        judge = judge_of(request)
        evaluations = max(1, min(self.evaluations, request.evaluations))
        clusters = len(case.graph.order)
        request.progress(f"{clusters} clusters, {evaluations} placements")
        rng = np.random.default_rng(request.seed)
        by = "no policy" if scorer is None else "pre-trained policy"
        figures = [("clusters", float(clusters))]
        if not self.coarse or request.simulate is None:
            drawn = case.placements(first_devices(case, scorer, evaluations, rng))
            judge.results(_behind(request.start, drawn)[:evaluations])
            method = f"{by} alone"
        else:
            surrogate = surrogate_of(prepared(problem, box), request.simulate, request.order)
            groups = len(surrogate.piece_of)
            request.progress(f"search on {groups} groups, {self.coarse} placements of them")
            share = max(1, int(evaluations * SHARE_DRAWN))
            drawn = case.placements(first_devices(case, scorer, share, rng))
            if request.start is not None:
                judge.results(request.start[None])
            if left := evaluations - judge.evaluations:
                starts = _behind(request.start, drawn)
                coarse_search(surrogate, judge, starts, Cooling(self.coarse), left, rng)
            method = f"{by}, then search on {groups} groups"
            figures += [
                ("coarse evaluations", float(surrogate.evaluations)),
                ("groups", float(groups)),
                ("pieces", float(surrogate.units.count)),
            ]
        figures.insert(1, ("used devices", float(len(np.unique(judge.best)))))
        return judge.answer(method, *figures)

    def _scorer(self) -> Scorer | None:
        if self.policy == "none":
            return None
        path = Path(self.policy) if self.policy else SHIPPED_PLACEMENT_POLICY
        return scorer_of(PLACEMENT_POLICIES.load(path)[0])


def _behind(start: Ints | None, placements: Ints) -> Ints:
    """`[K, N]`, placements, with a start before them where there is one."""
    return placements if start is None else np.concatenate([start[None], placements])
