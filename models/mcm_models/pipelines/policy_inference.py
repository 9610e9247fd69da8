"""Pipelines from the trained policy: greedy, or by a beam; NumPy and numba alone."""

from __future__ import annotations

import numpy as np

from mcm_models.dqn.inference import QNetwork
from mcm_models.pipelines.balanced import descend
from mcm_models.pipelines.kernels import Ints, length_s
from mcm_models.pipelines.policy_features import CONTEXT, FEATURES, NUM_CANDIDATES, REACH, see
from mcm_models.pipelines.policy_lookahead import looked_ahead_pipeline
from mcm_models.pipelines.problem import Pipeline
from mcm_models.pipelines.published_environment import infer_flat
from mcm_models.pipelines.tables import PipelineTables

BEAM = 8
"""Partial pipelines that are kept by default."""


def infer_pipeline(
    network: QNetwork,
    t: PipelineTables,
    stages: int,
    beam: int = BEAM,
    descent: bool = False,
) -> Pipeline:
    """The shortest of the pipelines that the policy values most.

    Args:
        network: the policy.
        t: tables of the problem.
        stages: of the pipeline, at least 2.
        beam: partial pipelines that are kept after each decision; 1 is greedy, and so is the
            published flat network in any case. A beam is compared with what the look-ahead alone
            decides, too.
        descent: one pass of coordinate descent from the pipeline that was found.
    """
    if network.layout.is_flat:
        return infer_flat(network, t, stages)
    parts, places = np.zeros((1, stages + 1), np.int64), np.zeros((1, stages + 1), np.int64)
    parts[:, -1], places[:, -1] = len(t.forward) - 1, t.speed.shape[0] - 1
    greedy = 0
    for step in range(2 * (stages - 1)):
        stage, placed = divmod(step, 2)
        lanes = len(parts)
        rows = np.empty((lanes, NUM_CANDIDATES, FEATURES), np.float32)
        context = np.empty((lanes, CONTEXT), np.float32)
        mask = np.empty((lanes, NUM_CANDIDATES), np.bool_)
        middle = np.array(
            [
                see(t, *pair, stage, bool(placed), *seen)
                for pair, seen in zip(
                    zip(parts, places, strict=True),
                    zip(rows, context, mask, strict=True),
                    strict=True,
                )
            ]
        )
        values = network.values(rows, context, mask)
        best = np.argsort(-values, axis=None, kind="stable")[: min(beam, int(mask.sum()))]
        # The greedy pipeline is never crowded out, so that a beam is at least as good.
        follow = greedy * NUM_CANDIDATES + int(np.argmax(values[greedy]))
        if follow not in best:
            best[-1] = follow
        greedy = int(np.flatnonzero(best == follow)[0])
        lane, action = np.divmod(best, NUM_CANDIDATES)
        parts, places = parts[lane], places[lane]
        row = parts if placed else places
        row[:, stage + 1] = middle[lane] + action - REACH
    if beam > 1:
        # Neither is the pipeline of the look-ahead alone.
        ahead = looked_ahead_pipeline(t, stages, REACH)
        parts, places = (
            np.concatenate([rows, row[np.newaxis]])
            for rows, row in zip((parts, places), ahead, strict=True)
        )
    lengths = [float(length_s(t, *pair)) for pair in zip(parts, places, strict=True)]
    top = int(np.argmin(lengths))
    if descent:
        lengths[top] = float(descend(t, parts[top], places[top]))
    return Pipeline(_inner(parts[top]), _inner(places[top]), lengths[top])


def _inner(row: Ints) -> tuple[int, ...]:
    return tuple(int(cut) for cut in row[1:-1])
