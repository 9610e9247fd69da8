"""The pre-trained policy, then a little local search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_models.cluster_policy.decoding import Scorer, scorer_of
from mcm_models.cluster_policy.policy_file import SHIPPED_PLACEMENT_POLICY, load_placement_policy
from mcm_passes.families.box.learning.guided_search import guided_search
from mcm_passes.families.box.learning.judged import Judged
from mcm_passes.families.box.learning.pretraining.cases import ClusteredStep, clustered_step


@dataclass(frozen=True)
@checked(evaluations=at_least(1), parts=at_least(0))
class Pretrained:
    """A policy that was trained on other models and boxes, and local search that it guides.

    Attributes:
        policy: checkpoint; empty for the one that comes with the compiler, `none` for the control:
            the same search without a policy.
        evaluations: placements that are simulated, if the request allows as many.
        parts: into which clusters are divided by depth, after one by how long ops may wait; 0 for
            whole clusters.
    """

    name: ClassVar[str] = "pretrained"
    summary: ClassVar[str] = "a policy trained on other models, then a short local search"

    policy: str = ""
    evaluations: int = 100
    parts: int = 0

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """See `mcm_compiler.contracts.boxes.placers.Placer`; it takes no heed of `budget_s`.

        Raises:
            CompileError: MCM-D060 for scores that are no numbers, MCM-D065 for a policy that cannot
                be used.
        """
        scorer = self._scorer()
        case = clustered_step(problem, box, evaluator, self.parts)
        judged = Judged(evaluator)
        evaluations = max(1, min(self.evaluations, request.evaluations))
        progress(f"{len(case.graph.order)} clusters, {evaluations} placements")
        rng = np.random.default_rng(request.seed)
        start = None
        if request.start is not None:
            start = _devices_of(case, request.start)
        devices = guided_search(case, scorer, judged, evaluations, rng, start)
        figures = (
            ("clusters", float(len(devices))),
            ("used devices", float(len(np.unique(judged.best)))),
        )
        how = "no policy" if scorer is None else "pre-trained policy"
        return PlacerAnswer(
            device_of=judged.best,
            method=f"{how}, then local search over {len(devices)} clusters",
            evaluations=judged.evaluations,
            history=tuple(judged.history),
            figures=figures,
        )

    def _scorer(self) -> Scorer | None:
        if self.policy == "none":
            return None
        path = Path(self.policy) if self.policy else SHIPPED_PLACEMENT_POLICY
        return scorer_of(load_placement_policy(path)[0])


def _devices_of(case: ClusteredStep, placement: Ints) -> Ints:
    """`[C]`, the device that most units of each cluster have in a placement."""
    clusters, devices = case.graph.allowed.shape
    counts = np.zeros((clusters, devices), np.int64)
    np.add.at(counts, (case.cluster_of, placement[case.units.first]), 1)
    return counts.argmax(axis=1).astype(np.int32)
