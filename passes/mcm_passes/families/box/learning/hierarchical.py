"""The hierarchical planner as published."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from mcm_compiler.components.extras import LEARN
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.text.option_ranges import at_least, checked, even, one_of
from mcm_models.planner.layout import MAX_HIDDEN
from mcm_models.planner.settings import PUBLISHED, Baseline
from mcm_passes.families.box.learning.planner_run import Recipe, run_planner


@dataclass(frozen=True)
@checked(
    groups=at_least(0),
    samples=at_least(1),
    learning_rate=at_least(0),
    entropy=at_least(0),
    baseline=one_of(("average", "batch")),
    hidden=even(2, MAX_HIDDEN),
)
class Hierarchical:
    """Grouper and Placer, trained jointly by REINFORCE (Mirhoseini et al. 2018).

    Attributes:
        groups: M; 0 for the authors' 20 per device, at most 256.
        samples: K, placements per update.
        learning_rate: of Adam.
        entropy: weight of entropies; 0 as published.
        baseline: `average` of the signals before, as published, or the `batch` in standard
            deviations.
        hidden: width of the LSTMs, an even number.
        state: folder where the planner leaves its state and goes on from it; empty for none.
    """

    name: ClassVar[str] = "hierarchical"
    summary: ClassVar[str] = "grouper and placer, trained jointly as published"
    searches: ClassVar[bool] = True
    extra: ClassVar[str] = LEARN

    groups: int = 0
    samples: int = PUBLISHED.samples
    learning_rate: float = PUBLISHED.learning_rate
    entropy: float = PUBLISHED.entropy
    baseline: Baseline = PUBLISHED.baseline
    hidden: int = 512
    state: str = ""

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """See `mcm_compiler.contracts.boxes.placers.Placer`.

        Raises:
            CompileError: as `run_planner`.
        """
        settings = dataclasses.replace(
            PUBLISHED,
            samples=self.samples,
            learning_rate=self.learning_rate,
            entropy=self.entropy,
            baseline=self.baseline,
        )
        recipe = Recipe(
            self.name, settings, groups=self.groups, hidden=self.hidden, state=self.state
        )
        return run_planner(recipe, problem, box, evaluator, request, progress)
