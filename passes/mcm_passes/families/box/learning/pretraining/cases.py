"""Random steps in random boxes, clustered and ready to be placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.described import TargetFamily
from mcm_compiler.registry import TARGET_FAMILIES
from mcm_models.cluster_policy.cluster_graph import ClusterGraph, cluster_graph
from mcm_models.cluster_policy.synthetic_steps import synthetic_case
from mcm_passes.families.box.search.coarse_steps import groups_of_ops
from mcm_passes.families.box.search.units import Fallbacks, fallbacks

_PARTS = 1
"""Sets the draws of parts apart from others of a case."""


@dataclass(frozen=True, eq=False)
class ClusteredStep:
    """What a policy places.

    Attributes:
        graph: of clusters.
        ways: of ops that may not go where their cluster does.
        leader: first ops of the sets of ops that run together.
        cluster_of: `[N]`, cluster of each op; the same for ops that run together.
        evaluator: of the step.
    """

    graph: ClusterGraph
    ways: Fallbacks
    leader: Longs
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
    return ClusteredStep(graph, fallbacks(problem, box), problem.leader, cluster_of, evaluator)


def training_case(seed: int, index: int, parts: int = 0) -> ClusteredStep:
    """One of endlessly many.

    Args:
        seed: of them.
        index: of this one.
        parts: the most parts; so many, or fewer, are drawn.

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
