"""Random steps in random boxes, clustered and ready to be placed, and learning from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import Box, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.described import TargetFamily
from mcm_compiler.registry import TARGET_FAMILIES
from mcm_models.cluster_policy.cluster_graph import ClusterGraph, cluster_graph
from mcm_models.cluster_policy.decoding import decode, scorer_of
from mcm_models.cluster_policy.layout import Weights
from mcm_models.cluster_policy.synthetic_steps import synthetic_case
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.box.search.coarse_steps import groups_of_ops
from mcm_passes.families.box.search.units import Fallbacks, fallbacks

_PARTS = 1
"""Sets the draws of parts apart from others of a case."""


@dataclass(frozen=True, eq=False)
class ClusteredStep:
    """A step with its clusters, which a policy places.

    Attributes:
        graph: of clusters.
        ways: of ops that may not go where their cluster does.
        cluster_of: `[N]`, cluster of each op; the same for ops that run together.
        evaluator: of the step.
    """

    graph: ClusterGraph
    ways: Fallbacks
    cluster_of: Ints
    evaluator: StepEvaluator

    def placements(self, devices: Ints) -> Ints:
        """`[K, N]` of devices of clusters `[K, C]`."""
        return self.ways.placements(devices[:, self.cluster_of])

    def scores(self, devices: Ints) -> Floats:
        """`[K]`, scores of devices of clusters `[K, C]`."""
        return self.evaluator.evaluate(self.placements(devices)).score


def clustered_step(
    problem: StepProblem, box: Box, evaluator: StepEvaluator, parts: int = 0
) -> ClusteredStep:
    """A step with its clusters.

    Args:
        problem: what is placed.
        box: where.
        evaluator: of the step.
        parts: into which clusters are divided by depth, after one by how long ops may wait; 0 for
            whole clusters.
    """
    label = groups_of_ops(problem, box, parts)
    graph = cluster_graph(problem, box, label)
    cluster_of = label[problem.leader[problem.together]]
    return ClusteredStep(graph, fallbacks(problem, box), cluster_of, evaluator)


def training_case(seed: int, index: int, parts: int = 0) -> ClusteredStep:
    """One of endlessly many.

    Args:
        seed: of them.
        index: of this one.
        parts: the most parts; up to that number are drawn.

    Raises:
        CompileError: MCM-U003 where no family `box` is installed.
    """
    case = synthetic_case(seed, index)
    family = cast("TargetFamily[BoxTarget]", TARGET_FAMILIES.get("box"))
    target = family(f"synthetic-{index}", case.box_text)
    problem = case.problem(target.box)
    divided = int(np.random.default_rng([seed, index, _PARTS]).integers(0, parts + 1))
    return clustered_step(problem, target.box, target.step_evaluator(problem), divided)


def single_device(case: ClusteredStep) -> Ints:
    """`[D, C]`, all clusters on each device in turn, where they may."""
    devices = case.graph.allowed.shape[1]
    clusters = len(case.graph.order)
    return np.repeat(np.arange(devices, dtype=np.int32)[:, None], clusters, axis=1)


MOST_DEVICES = 9
"""Of training cases."""


@dataclass(frozen=True, eq=False)
class IterationFigures:
    """Events of an iteration.

    Attributes:
        ratio: geometric mean of scores over that of the best single device.
        entropy: of a decision, in nats.
    """

    ratio: float
    entropy: float


def standardised(values: Floats) -> Floats:
    """Values minus their mean, in standard deviations; 0 where all are equal."""
    deviation = float(values.std())
    if deviation <= 1e-12 * max(1e-300, float(np.abs(values).max(initial=0.0))):
        return np.zeros_like(values)
    return (values - values.mean()) / deviation


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
    from mcm_models.cluster_policy.learning import Rows, arrays_of, padded, update

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
