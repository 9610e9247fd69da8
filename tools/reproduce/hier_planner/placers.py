"""The hierarchical planner as published, with given groups, and without a network."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hier_planner.op_features import op_features
from hier_planner.planner_settings import (
    MAX_HIDDEN,
    OURS,
    PUBLISHED,
    Baseline,
    PlannerLayout,
    PlannerSettings,
    default_groups,
)
from hier_planner.planning import Plan, PlannerError, Progress, begin, learn
from mcm_compiler.arrays.types import Ints
from mcm_compiler.components.extras import LEARN, require_learning
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.text.option_fields import at_least, checked, even, one_of, with_options
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.coarse_steps import groups_of_ops
from mcm_passes.families.box.search.units import fallbacks

LAST = 50
"""Updates at the end whose means are reported: the best sample alone hides a policy that has
collapsed."""

TOLD_EVERY = 50
"""Updates between two messages of progress."""

_CURVE_POINTS = 20


@dataclass(frozen=True, eq=False)
class Recipe:
    """Which planner is run.

    Attributes:
        kind: name, for reports.
        settings: of learning.
        given: `[N]`, group of each op, or None for a Grouper.
        groups: M of a Grouper; 0 for that of the authors.
        hidden: of the LSTMs.
        table: scores are a table, not a network.
        start_weight: what is added to the scores of the devices that most of a group's time has in
            the request's placement.
    """

    kind: str
    settings: PlannerSettings
    given: Ints | None = None
    groups: int = 0
    hidden: int = 512
    table: bool = False
    start_weight: float = 0.0


def run_planner(recipe: Recipe, request: PlacerRequest) -> PlacerAnswer:
    """Learns until the evaluations are spent; the best sample is the answer.

    Raises:
        PlannerError: where no sample fitted and the signal has no slope, for more groups than there
            are units, and where weights diverge.
        CompileError: MCM-D060 for scores that are no numbers, MCM-L012 without the extra.
    """
    require_learning(f"the placer {recipe.kind}", f"placer {recipe.kind}", "local_search")
    use_one_thread()
    stop = None if request.budget_s is None else time.monotonic() + request.budget_s
    plan = _plan(recipe, request)
    judge = judge_of(request)
    state = begin(plan)
    if request.start is not None and request.evaluations > plan.settings.samples:
        judge.results(request.start[None])
    spare = request.evaluations - judge.evaluations
    updates = max(1, spare // plan.settings.samples)

    def after(now: Progress) -> None:
        if now.update % TOLD_EVERY == 0 or now.update == updates:
            mean = np.mean([point[0] for point in now.curve[-LAST:]])
            request.progress(
                f"update {now.update} of {updates}: best {judge.best_score:.4g}, "
                f"mean of the last {mean:.4g} s"
            )

    learn(plan, judge, state, updates, stop, after)
    if not state.any_fits and not plan.settings.has_slope:
        raise PlannerError(
            f"none of {judge.evaluations} placements fits the memory of the devices, so that "
            f"all had the same signal and nothing could be learned"
        )
    method = f"{recipe.kind}, {plan.layout.groups} groups, {state.update} updates"
    return judge.answer(method, *_figures(state, plan))


def _plan(recipe: Recipe, request: PlacerRequest) -> Plan:
    problem, box = request.problem, request.box
    units = problem.num_groups
    features = op_features(problem)
    given = None if recipe.given is None else recipe.given[problem.leader]
    groups = recipe.groups or min(default_groups(box.num_devices), units)
    if given is not None:
        groups = int(given.max(initial=0)) + 1
    if groups > units:
        raise PlannerError(
            f"{groups} groups are more than the {units} sets of ops that run together"
        )
    settings = dataclasses.replace(
        recipe.settings, samples=max(1, min(recipe.settings.samples, request.evaluations))
    )
    prior = np.zeros((groups, box.num_devices), np.float32)
    if recipe.start_weight and request.start is not None and given is not None:
        prior = _prior(recipe.start_weight, problem, given, request.start, prior)
    layout = PlannerLayout(groups, box.num_devices, features.types, recipe.hidden)
    ways = fallbacks(problem, box)
    return Plan(problem, ways, features, layout, settings, request.seed, given, prior, recipe.table)


def _prior(
    weight: float, problem: StepProblem, given: Ints, start: Ints, nothing: np.ndarray
) -> np.ndarray:
    """Scores of the devices that most of the time of each group's ops has in a placement."""
    held = nothing.astype(np.float64)
    fastest = np.where(np.isfinite(problem.time_s), problem.time_s, np.inf).min(axis=1)
    np.add.at(held, (given[problem.together], start), fastest)
    prior = nothing.copy()
    prior[np.arange(len(prior)), held.argmax(axis=1)] = weight
    return prior


def _figures(state: Progress, plan: Plan) -> tuple[tuple[str, float], ...]:
    curve = np.array(state.curve, np.float64).reshape(-1, 5)
    last = curve[-LAST:].mean(axis=0) if len(curve) else np.zeros(5)
    figures = [
        ("updates", float(state.update)),
        ("mean score of the last updates", float(last[0])),
        ("entropy of a group's device", float(last[1])),
        ("most entropy of a group's device", float(np.log(plan.layout.devices))),
        ("entropy of an op's group", float(last[2])),
        ("groups", float(plan.layout.groups)),
        ("used groups", float(last[3])),
        ("used devices", float(last[4])),
    ]
    for part in np.array_split(np.arange(len(curve)), min(_CURVE_POINTS, max(1, len(curve)))):
        if len(part):
            name = f"mean score to update {int(part[-1]) + 1}"
            figures.append((name, float(curve[part, 0].mean())))
    return tuple(figures)


class _Learned(ABC):
    """A placer that a planner makes by a recipe, which the options of the placer state."""

    extra: ClassVar[str] = LEARN
    searches: ClassVar[bool] = True

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """See `mcm_compiler.contracts.boxes.placers.Placer`.

        Raises:
            PlannerError, CompileError: as `run_planner`.
        """
        return run_planner(self._recipe(request.problem, request.box), request)

    @abstractmethod
    def _recipe(self, problem: StepProblem, box: Box) -> Recipe: ...


@dataclass(frozen=True)
@checked(
    groups=at_least(0),
    samples=at_least(1),
    learning_rate=at_least(0),
    entropy=at_least(0),
    baseline=one_of(("average", "batch")),
    hidden=even(2, MAX_HIDDEN),
)
class Hierarchical(_Learned):
    """Grouper and Placer, trained jointly by REINFORCE (Mirhoseini et al. 2018).

    Attributes:
        groups: M; 0 for the authors' 20 per device, at most 256.
        samples: K, placements per update.
        learning_rate: of Adam.
        entropy: weight of entropies; 0 as published.
        baseline: `average` of the signals before, as published, or the `batch` in standard
            deviations.
        hidden: width of the LSTMs, an even number.
    """

    name: ClassVar[str] = "hierarchical"
    summary: ClassVar[str] = "grouper and placer, trained jointly as published"

    groups: int = 0
    samples: int = PUBLISHED.samples
    learning_rate: float = PUBLISHED.learning_rate
    entropy: float = PUBLISHED.entropy
    baseline: Baseline = PUBLISHED.baseline
    hidden: int = 512

    def _recipe(self, problem: StepProblem, box: Box) -> Recipe:
        return with_options(Recipe(self.name, with_options(PUBLISHED, self)), self)


@dataclass(frozen=True)
@checked(
    samples=at_least(1),
    learning_rate=at_least(0),
    entropy=at_least(0),
    epochs=at_least(1),
    clip=at_least(0),
    parts=at_least(0),
)
class _GivenGroups(_Learned):
    """What both have in common."""

    name: ClassVar[str]
    table: ClassVar[bool]

    samples: int = OURS.samples
    learning_rate: float = OURS.learning_rate
    entropy: float = OURS.entropy
    credit: float = OURS.credit
    epochs: int = OURS.epochs
    clip: float = OURS.clip
    parts: int = 0
    start_weight: float = 2.0

    def _recipe(self, problem: StepProblem, box: Box) -> Recipe:
        given = groups_of_ops(problem, box, self.parts)
        return with_options(Recipe(self.name, with_options(OURS, self), given=given), self)


@dataclass(frozen=True)
@checked(hidden=even(2, MAX_HIDDEN))
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
    """

    name: ClassVar[str] = "hierarchical-groups"
    summary: ClassVar[str] = "the published placer over groups around weights"
    table: ClassVar[bool] = False
    hidden: int = Recipe.hidden


@dataclass(frozen=True)
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
    """

    name: ClassVar[str] = "logits"
    summary: ClassVar[str] = "a table of scores over groups around weights, without a network"
    table: ClassVar[bool] = True
    learning_rate: float = 0.1
