"""Pipelines from the trained policy: greedy, or by a beam; NumPy and numba alone.

Checkpoints of the pipeline policy: weights as safetensors, with a card inside.

A checkpoint may come from anywhere, so it is read as data only and every name, type, shape and
number is checked, as for the partitioning policy (`mcm_models.policy.layout`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from deep_q_study.network import QLayout
from msgspec import Meta

from mcm_models.cards import CheckpointCard, CheckpointKind
from mcm_models.pipelines.kernels import Ints, descend, length_s
from mcm_models.pipelines.problem import Pipeline, PipelineProblem, PipelineTables, pipeline_tables
from pipeline_policy import policy_features
from pipeline_policy.policy_environment import POLICY_LAYOUT, PreparedCase, QNetwork, first_weights
from pipeline_policy.policy_features import CONTEXT, FEATURES, FEATURES_VERSION, NUM_CANDIDATES
from pipeline_policy.policy_lookahead import ahead_tables
from pipeline_policy.published_environment import FLAT_LAYOUT, infer_flat

BEAM = 8
"""Partial pipelines that are kept by default."""


def infer_pipeline(
    network: QNetwork, t: PipelineTables, stages: int, beam: int = BEAM, descent: bool = False
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


MAX_BYTES = 1 << 24
"""Largest checkpoint that is read: 16 MiB, two thousand times the default policy."""

MAX_LAYERS, MAX_WIDTH = 8, 1024

_Width = Annotated[int, Meta(ge=1, le=MAX_WIDTH)]

RECORDED_POLICY = Path(__file__).resolve().parents[1] / "data" / "pipeline-policy.safetensors"
"""The policy of the record; the card inside says how it was trained."""


@dataclass(frozen=True)
class PipelinePolicyCard(CheckpointCard):
    """Card of a pipeline policy.

    Attributes:
        hidden: widths of the hidden layers.
        features_version: of `policy_features`.
        flat: the network of the published setting, which sees no candidates.
        trained_on: settings, seed, samples, versions and scores, as JSON data.
    """

    hidden: Annotated[tuple[_Width, ...], Meta(min_length=1, max_length=MAX_LAYERS)]
    features_version: int = FEATURES_VERSION
    flat: bool = False
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def layout(self) -> QLayout:
        """Of the network."""
        if self.flat:
            return dataclasses.replace(FLAT_LAYOUT, hidden=self.hidden)
        return QLayout(FEATURES, CONTEXT, NUM_CANDIDATES, self.hidden)


PIPELINE_POLICIES = CheckpointKind(
    "pipeline policy",
    PipelinePolicyCard,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-L001", "MCM-L002", "MCM-L003"),
    "train one with `mcmc train pipeline`, or use the one of the record",
)


def load_pipeline_policy(path: Path = RECORDED_POLICY) -> tuple[QNetwork, PipelinePolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-L001 if the file cannot be read or is no such checkpoint, MCM-L002 if it
            was made for other features, MCM-L003 if its weights do not fit its card.
    """
    weights, card = PIPELINE_POLICIES.load(path)
    return QNetwork(card.layout, weights), card
