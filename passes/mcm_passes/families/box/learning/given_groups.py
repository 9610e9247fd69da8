"""The planner with given groups, and the same without a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from mcm_compiler.components.extras import LEARN
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.text.option_ranges import at_least, checked, even
from mcm_models.planner.layout import MAX_HIDDEN
from mcm_models.planner.settings import OURS
from mcm_passes.families.box.learning.planner_run import Recipe, run_planner
from mcm_passes.families.box.search.coarse_steps import groups_of_ops


@dataclass(frozen=True)
class _GivenGroups:
    """What both have in common."""

    name: ClassVar[str]
    extra: ClassVar[str] = LEARN
    table: ClassVar[bool]

    samples: int = OURS.samples
    learning_rate: float = OURS.learning_rate
    entropy: float = OURS.entropy
    credit: float = OURS.credit
    epochs: int = OURS.epochs
    clip: float = OURS.clip
    parts: int = 0
    start_weight: float = 2.0
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
            OURS,
            samples=self.samples,
            learning_rate=self.learning_rate,
            entropy=self.entropy,
            credit=self.credit,
            epochs=self.epochs,
            clip=self.clip,
        )
        recipe = Recipe(
            self.name,
            settings,
            given=groups_of_ops(problem, box, self.parts),
            hidden=self._width(),
            table=self.table,
            start_weight=self.start_weight,
            state=self.state,
        )
        return run_planner(recipe, problem, box, evaluator, request, progress)

    def _width(self) -> int:
        """Of the LSTMs, where there are some."""
        return Recipe.hidden


@dataclass(frozen=True)
@checked(
    samples=at_least(1),
    learning_rate=at_least(0),
    entropy=at_least(0),
    epochs=at_least(1),
    clip=at_least(0),
    parts=at_least(0),
    hidden=even(2, MAX_HIDDEN),
)
class HierarchicalGroups(_GivenGroups):
    """The Placer alone, over groups of ops around each weight (our recipe).

    Attributes:
        samples: K, placements per update.
        learning_rate: of Adam; 0 for the policy as it begins.
        entropy: weight of entropies.
        credit: weight of what is known per device.
        epochs: gradient steps on the same samples.
        clip: of PPO; 0 for none.
        parts: into which each group is divided by depth, after one by how long ops may wait, as
            local search does; 0 for whole groups.
        start_weight: how much likelier the devices of the placement to start from are, in nats.
        hidden: width of the LSTMs, an even number.
        state: folder where the planner leaves its state and goes on from it; empty for none.
    """

    name: ClassVar[str] = "hierarchical-groups"
    summary: ClassVar[str] = "the published placer over groups around weights"
    searches: ClassVar[bool] = True
    table: ClassVar[bool] = False
    hidden: int = Recipe.hidden

    def _width(self) -> int:
        return self.hidden


@dataclass(frozen=True)
@checked(
    samples=at_least(1),
    learning_rate=at_least(0),
    entropy=at_least(0),
    epochs=at_least(1),
    clip=at_least(0),
    parts=at_least(0),
)
class Logits(_GivenGroups):
    """The control: the same updates of a table of scores, without a network.

    Attributes:
        samples: K, placements per update.
        learning_rate: of Adam; 0 for the policy as it begins.
        entropy: weight of entropies.
        credit: weight of what is known per device.
        epochs: gradient steps on the same samples.
        clip: of PPO; 0 for none.
        parts: into which each group is divided by depth, after one by how long ops may wait, as
            local search does; 0 for whole groups.
        start_weight: how much likelier the devices of the placement to start from are, in nats.
        state: folder where the planner leaves its state and goes on from it; empty for none.
    """

    name: ClassVar[str] = "logits"
    summary: ClassVar[str] = "a table of scores over groups around weights, without a network"
    searches: ClassVar[bool] = True
    table: ClassVar[bool] = True
    learning_rate: float = 0.1
