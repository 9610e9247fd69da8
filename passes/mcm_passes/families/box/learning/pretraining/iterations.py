"""One iteration of training: some cases, some placements of each, one update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcm_models.cluster_policy.decoding import decode, scorer_of
from mcm_models.cluster_policy.layout import Weights
from mcm_models.cluster_policy.learning import Rows, arrays_of, padded, update
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.box.learning.planning import standardised
from mcm_passes.families.box.learning.pretraining.cases import ClusteredStep, single_device

MOST_DEVICES = 9
"""Of training cases."""


@dataclass(frozen=True, eq=False)
class IterationFigures:
    """What happened.

    Attributes:
        ratio: geometric mean of scores over that of the best single device.
        entropy: of a decision, in nats.
    """

    ratio: float
    entropy: float


def iterate(
    settings: PpoSettings,
    placements: int,
    weights: Weights,
    state: Any,
    cases: Sequence[ClusteredStep],
    rng: np.random.Generator,
) -> tuple[Weights, Any, IterationFigures]:
    """Decodes, simulates and learns.

    A placement's advantage is the logarithm of its score against the others of its case, in
    standard deviations; all its decisions share it.

    Args:
        settings: of PPO.
        placements: of each case.
        weights: of the policy.
        state: of the optimizer.
        cases: graphs.
        rng: of the draws.

    Returns:
        New weights and state, and figures.
    """
    scorer = scorer_of(weights)
    parts: list[Rows] = []
    ratios: list[float] = []
    for case in cases:
        found = decode(case.graph, scorer, placements, rng)
        scores = case.scores(found.devices)
        alone = case.scores(single_device(case)).min()
        ratios.append(float(np.log(scores / alone).mean()))
        advantage = standardised(-np.log(scores))
        if not advantage.any():
            continue
        count, steps, devices, columns = found.seen.shape
        turn = np.tile(case.graph.order, steps // len(case.graph.order))
        allowed = np.broadcast_to(case.graph.allowed[turn], (count, steps, devices))
        parts.append(
            Rows(
                found.seen.reshape(-1, devices, columns),
                allowed.reshape(-1, devices),
                found.chosen.reshape(-1),
                np.repeat(advantage, steps).astype(np.float32),
                # Large graphs have more decisions; each case counts the same.
                np.full(count * steps, 1.0 / steps, np.float32),
            )
        )
    ratio = float(np.exp(np.mean(ratios)))
    if not parts:
        return weights, state, IterationFigures(ratio, 0.0)
    wide = [padded(part, MOST_DEVICES, len(part.chosen)) for part in parts]
    rows = Rows(*(np.concatenate(column) for column in zip(*wide, strict=True)))
    grown = padded(rows, MOST_DEVICES, 1 << max(6, (len(rows.chosen) - 1).bit_length()))
    new, state, entropy = update(settings, dict(weights), state, grown)
    return arrays_of(new), state, IterationFigures(ratio, float(entropy))
