"""Pipelines from the trained policy: greedy, or by a beam; NumPy and numba alone."""

from __future__ import annotations

import numpy as np

from mcm_models.dqn.network import QNetwork
from mcm_models.pipelines import policy_features
from mcm_models.pipelines.balanced import descend
from mcm_models.pipelines.kernels import Ints, length_s
from mcm_models.pipelines.policy_environment import POLICY_LAYOUT, PreparedCase, first_weights
from mcm_models.pipelines.policy_lookahead import ahead_tables
from mcm_models.pipelines.problem import Pipeline, PipelineProblem
from mcm_models.pipelines.published_environment import infer_flat
from mcm_models.pipelines.tables import PipelineTables, pipeline_tables

BEAM = 8
"""Partial pipelines that are kept by default."""


def infer_pipeline(
    network: QNetwork,
    t: PipelineTables,
    stages: int,
    beam: int = BEAM,
    descent: bool = False,
) -> Pipeline:
    """The shortest of the pipelines that the policy decides on, and of what it saw on the way.

    That is all completions of the look-ahead, and what the look-ahead alone decides.

    Args:
        network: the policy.
        t: tables of the problem.
        stages: of the pipeline, at least 2.
        beam: partial pipelines that are kept after each decision, the greedy one of the policy and
            that of the look-ahead alone among them; 1 for these two. The published flat network is
            greedy in any case.
        descent: one pass of coordinate descent from the pipeline that was found.
    """
    if network.layout.is_flat:
        return infer_flat(network, t, stages)
    q = ahead_tables(t)
    parts, places = np.zeros((1, stages + 1), np.int64), np.zeros((1, stages + 1), np.int64)
    parts[:, -1], places[:, -1] = len(t.forward) - 1, t.speed.shape[0] - 1
    # The lane of the policy's greedy pipeline is the first.
    ahead = 0
    shortest, plan = np.inf, np.zeros((2, stages + 1), np.int64)
    for step in range(2 * (stages - 1)):
        stage, placed = divmod(step, 2)
        lanes = len(parts)
        seen = policy_features.FeatureArrays(
            np.empty((lanes, policy_features.NUM_CANDIDATES, policy_features.FEATURES), np.float32),
            np.empty((lanes, policy_features.CONTEXT), np.float32),
            np.empty((lanes, policy_features.NUM_CANDIDATES), np.bool_),
            np.empty((lanes, 2, stages + 1), np.int64),
        )
        middle, nearest, lengths = policy_features.featurise_all(
            t, q, parts, places, stage, bool(placed), seen
        )
        top = int(np.argmin(lengths))
        if lengths[top] < shortest:
            shortest, plan = lengths[top], seen.plan[top]
        values = network.values(seen.rows, seen.context, seen.mask)
        best = np.argsort(-values, axis=None, kind="stable")[: min(beam, int(seen.mask.sum()))]
        kept = (
            int(np.argmax(values[0])),
            ahead * policy_features.NUM_CANDIDATES + int(nearest[ahead]),
        )
        chosen = list(dict.fromkeys([*kept, *best.tolist()]))[: max(beam, len(set(kept)))]
        ahead = chosen.index(kept[1])
        lane, action = np.divmod(chosen, policy_features.NUM_CANDIDATES)
        parts, places = parts[lane], places[lane]
        row = parts if placed else places
        row[:, stage + 1] = middle[lane] + action - policy_features.REACH
    parts, places = np.concatenate([parts, plan[:1]]), np.concatenate([places, plan[1:]])
    lengths = [float(length_s(t, *pair)) for pair in zip(parts, places, strict=True)]
    top = int(np.argmin(lengths))
    if descent:
        lengths[top] = float(descend(t, parts[top], places[top]))
    return Pipeline(_inner(parts[top]), _inner(places[top]), lengths[top])


def look_ahead_alone() -> QNetwork:
    """The policy that has learned nothing: it follows the look-ahead."""
    return QNetwork(POLICY_LAYOUT, first_weights(None))


def prepare_case(problem: PipelineProblem) -> PreparedCase:
    """Tables of a problem, and the length that the look-ahead alone reaches."""
    tables = pipeline_tables(problem)
    known = infer_pipeline(look_ahead_alone(), tables, problem.stages, 1)
    return PreparedCase(tables, ahead_tables(tables), problem.stages, known.length_s)


def _inner(row: Ints) -> tuple[int, ...]:
    return tuple(int(cut) for cut in row[1:-1])
