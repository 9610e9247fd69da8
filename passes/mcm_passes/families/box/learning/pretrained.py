"""The pre-trained policy, then a search that begins with what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_models.cluster_policy.decoding import Scorer, decode, scorer_of, scores_given
from mcm_models.cluster_policy.layout import PLACEMENT_POLICIES, SHIPPED_PLACEMENT_POLICY
from mcm_passes.families.box.learning.coarse_search import (
    Surrogate,
    coarse_search,
    surrogate_of,
)
from mcm_passes.families.box.learning.pretraining.cases import ClusteredStep, clustered_step
from mcm_passes.families.box.search.annealing import Cooling, Judge, judge_of
from mcm_passes.families.box.search.coarse_steps import prepared

SHARE_DRAWN = 0.25
"""Of the evaluations, those of placements that are drawn from the policy before the search."""

UNIFORM_SHARE = 0.3
"""Of proposals for one cluster, those that every other device is as likely for."""


def guided_search(
    case: ClusteredStep,
    scorer: Scorer | None,
    judge: Judge,
    evaluations: int,
    rng: np.random.Generator,
    start: Ints | None = None,
) -> Ints:
    """Searches from the best of what the policy says at once and what it draws.

    A move gives one cluster, or several that follow each other in order, another device; it is
    kept unless the score rises. Which device is drawn from the policy, given where all other
    clusters are.

    Args:
        case: what is placed.
        scorer: the policy; None for the control, which draws devices that are all as likely.
        judge: asks the evaluator.
        evaluations: that it may spend, at least 1.
        rng: of the draws.
        start: `[C]`, devices to begin with next to those of the policy.

    Returns:
        `[C]`, devices of the best placement.
    """
    clusters = len(case.graph.order)

    def scored(devices: Ints) -> Floats:
        return judge.results(case.placements(devices)).score

    first = first_devices(case, scorer, max(1, int(evaluations * SHARE_DRAWN)), rng)
    if start is not None:
        first = np.concatenate([start[None], first])
    first = first[: max(1, evaluations)]
    scores = scored(first)
    at = int(scores.argmin())
    best, score = first[at].copy(), float(scores[at])
    propose = _proposals(case, scorer, rng)
    for _ in range(evaluations - len(first)):
        trial = best.copy()
        length = 1 if rng.random() < 0.7 else int(rng.integers(2, max(3, clusters // 3 + 1)))
        begin = int(rng.integers(0, clusters))
        moved = case.graph.order[begin : begin + length]
        trial[moved] = propose(trial, int(moved[0]))
        if (trial == best).all():
            one, other = rng.integers(0, clusters, 2)
            trial[[one, other]] = trial[[other, one]]
        found = float(scored(trial[None])[0])
        if found <= score:
            best, score = trial, found
    return best


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


def _proposals(
    case: ClusteredStep, scorer: Scorer | None, rng: np.random.Generator
) -> Callable[[Ints, int], int]:
    """Draws another device for a cluster."""
    count = case.graph.allowed.shape[1]

    def propose(devices: Ints, cluster: int) -> int:
        p = np.full(count, 1.0 / count)
        if scorer is not None:
            said = scores_given(case.graph, scorer, devices, cluster)
            p = UNIFORM_SHARE * p + (1.0 - UNIFORM_SHARE) * said
        p = np.where(case.graph.allowed[cluster], p, 0.0)
        p[devices[cluster]] = 0.0
        if p.sum() <= 0.0:
            return int(devices[cluster])
        return int(rng.choice(count, p=p / p.sum()))

    return propose


@dataclass(frozen=True)
@checked(evaluations=at_least(1), parts=at_least(0), coarse=at_least(0))
class Pretrained:
    """A policy that was trained on other models and boxes, and a search that begins with its word.

    The search goes over pieces of clusters on a coarse step, and asks about the whole one now and
    then. Without coarse evaluations, or where the request makes no evaluators, it goes over
    clusters on the whole step alone, by moves that the policy proposes.

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
        if self.coarse and request.simulate is not None:
            surrogate = surrogate_of(prepared(problem, box), request.simulate, request.order)
            how = f"search on {len(surrogate.piece_of)} groups"
            request.progress(f"{how}, {self.coarse} placements of them")
            self._coarse_search(case, scorer, surrogate, judge, request, evaluations, rng)
            figures = (
                ("coarse evaluations", float(surrogate.evaluations)),
                ("groups", float(len(surrogate.piece_of))),
                ("pieces", float(surrogate.units.count)),
            )
        else:
            start = None if request.start is None else _devices_of(case, request.start)
            guided_search(case, scorer, judge, evaluations, rng, start)
            how, figures = f"local search over {clusters} clusters", ()
        by = "no policy" if scorer is None else "pre-trained policy"
        used = float(len(np.unique(judge.best)))
        return judge.answer(
            f"{by}, then {how}",
            ("clusters", float(clusters)),
            ("used devices", used),
            *figures,
        )

    def _coarse_search(
        self,
        case: ClusteredStep,
        scorer: Scorer | None,
        surrogate: Surrogate,
        judge: Judge,
        request: PlacerRequest,
        evaluations: int,
        rng: np.random.Generator,
    ) -> None:
        drawn = max(1, int(evaluations * SHARE_DRAWN))
        starts = case.placements(first_devices(case, scorer, drawn, rng))
        if request.start is not None:
            judge.results(request.start[None])
            starts = np.concatenate([request.start[None], starts])
        left = evaluations - judge.evaluations
        if left:
            coarse_search(surrogate, judge, starts, Cooling(self.coarse), left, rng)

    def _scorer(self) -> Scorer | None:
        if self.policy == "none":
            return None
        path = Path(self.policy) if self.policy else SHIPPED_PLACEMENT_POLICY
        return scorer_of(PLACEMENT_POLICIES.load(path)[0])


def _devices_of(case: ClusteredStep, placement: Ints) -> Ints:
    """`[C]`, the device that most units of each cluster have in a placement."""
    clusters, devices = case.graph.allowed.shape
    counts = np.zeros((clusters, devices), np.int64)
    np.add.at(counts, (case.cluster_of[case.leader], placement[case.leader]), 1)
    return counts.argmax(axis=1).astype(np.int32)
