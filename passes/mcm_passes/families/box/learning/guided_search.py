"""Local search over clusters whose moves a policy proposes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_models.cluster_policy.decoding import Scorer, decode, scores_given
from mcm_passes.families.box.learning.judged import Judged
from mcm_passes.families.box.learning.pretraining.cases import ClusteredStep

SHARE_DRAWN = 0.25
"""Of the evaluations, those of placements that are drawn from the policy before the search."""

UNIFORM_SHARE = 0.3
"""Of proposals for one cluster, those that every other device is as likely for."""


def guided_search(
    case: ClusteredStep,
    scorer: Scorer | None,
    judged: Judged,
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
        judged: asks the evaluator.
        evaluations: that it may spend, at least 1.
        rng: of the draws.
        start: `[C]`, devices to begin with beside those of the policy.

    Returns:
        `[C]`, devices of the best placement.
    """
    clusters = len(case.graph.order)

    def judge(devices: Ints) -> Floats:
        return judged.judge(case.placements(devices)).score

    first = first_devices(case, scorer, max(1, int(evaluations * SHARE_DRAWN)), rng)
    if start is not None:
        first = np.concatenate([start[None], first])
    first = first[: max(1, evaluations)]
    scores = judge(first)
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
        found = float(judge(trial[None])[0])
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
