"""A planner from a request to an answer."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.components.extras import require_learning
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.planner.layout import PlannerLayout
from mcm_models.planner.op_features import op_features
from mcm_models.planner.settings import PlannerSettings, default_groups
from mcm_passes.families.box.learning.judged import Judged
from mcm_passes.families.box.learning.placement_units import PlacementUnits, placement_units
from mcm_passes.families.box.learning.planner_state import StateFolder, step_digest
from mcm_passes.families.box.learning.planning import Plan, Progress, begin, learn

LAST = 50
"""Updates at the end whose means are reported: the best sample alone hides a policy that has
collapsed."""

_CURVE_POINTS = 20


@dataclass(frozen=True, eq=False)
class Recipe:
    """Which planner is run.

    Attributes:
        kind: name, for reports and states.
        settings: of learning.
        given: `[N]`, group of each op, or None for a Grouper.
        groups: M of a Grouper; 0 for that of the authors.
        hidden: of the LSTMs.
        table: scores are a table, not a network.
        start_weight: what is added to the scores of the devices that most of a group's time has in
            the request's placement.
        state: folder of the state, empty for none.
        save_every: updates.
    """

    kind: str
    settings: PlannerSettings
    given: Ints | None = None
    groups: int = 0
    hidden: int = 512
    table: bool = False
    start_weight: float = 0.0
    state: str = ""
    save_every: int = 50


def run_planner(
    recipe: Recipe,
    problem: StepProblem,
    box: Box,
    evaluator: StepEvaluator,
    request: PlacerRequest,
    progress: Callable[[str], None],
) -> PlacerAnswer:
    """Learns until the evaluations are spent; the best sample is the answer.

    Raises:
        CompileError: MCM-D060 for scores that are no numbers, MCM-D061 where no sample fitted and
            the signal has no slope, MCM-D062 for more groups than there are units, MCM-D063 and
            MCM-D064 for a state that does not belong here or is damaged, MCM-D066 where weights
            diverge, MCM-L012 without the extra.
    """
    require_learning(f"the placer {recipe.kind}", f"placer {recipe.kind}", "local_search")
    use_one_thread()
    stop = None if request.budget_s is None else time.monotonic() + request.budget_s
    plan = _plan(recipe, problem, box, request)
    judged = Judged(evaluator)
    folder: StateFolder | None = None
    if recipe.state:
        step = step_digest(problem, box, request.order)
        folder = StateFolder(Path(recipe.state), recipe.kind, step)
    state = folder.load(plan, judged) if folder else None
    if state is None:
        state = begin(plan)
        if request.start is not None and request.evaluations > plan.settings.samples:
            judged.judge(request.start[None])
    spare = request.evaluations - judged.evaluations + state.update * plan.settings.samples
    updates = max(1, spare // plan.settings.samples)

    def after(now: Progress) -> None:
        if now.update % recipe.save_every == 0 or now.update == updates:
            mean = np.mean([point[0] for point in now.curve[-LAST:]])
            progress(
                f"update {now.update} of {updates}: best {judged.best_score:.4g}, "
                f"mean of the last {mean:.4g} s"
            )
            if folder:
                folder.save(plan, judged, now)

    learn(plan, judged, state, updates, stop, after)
    if not judged.any_fits and not plan.settings.has_slope:
        raise CompileError.of(
            "MCM-D061",
            f"none of {judged.evaluations} placements fits the memory of the devices, so that "
            f"all had the same signal and nothing could be learned",
            at=f"placer {recipe.kind}",
        )
    return PlacerAnswer(
        device_of=judged.best,
        method=f"{recipe.kind}, {plan.layout.groups} groups, {state.update} updates",
        evaluations=judged.evaluations,
        history=tuple(judged.history),
        figures=_figures(state, plan),
    )


def _plan(recipe: Recipe, problem: StepProblem, box: Box, request: PlacerRequest) -> Plan:
    units = placement_units(problem, box)
    features = op_features(problem)
    given = None if recipe.given is None else recipe.given[units.first]
    groups = recipe.groups or min(default_groups(box.num_devices), units.count)
    if given is not None:
        groups = int(given.max(initial=0)) + 1
    if groups > units.count:
        raise CompileError.of(
            "MCM-D062",
            f"{groups} groups are more than the {units.count} sets of ops that run together",
            at=f"placer {recipe.kind}",
        )
    settings = dataclasses.replace(
        recipe.settings, samples=max(1, min(recipe.settings.samples, request.evaluations))
    )
    prior = np.zeros((groups, box.num_devices), np.float32)
    if recipe.start_weight and request.start is not None and given is not None:
        prior = _prior(recipe.start_weight, problem, units, given, request.start, prior)
    layout = PlannerLayout(groups, box.num_devices, features.types, recipe.hidden)
    return Plan(units, features, layout, settings, request.seed, given, prior, recipe.table)


def _prior(
    weight: float,
    problem: StepProblem,
    units: PlacementUnits,
    given: Ints,
    start: Ints,
    nothing: np.ndarray,
) -> np.ndarray:
    """Scores of the devices that most of the time of each group's ops has in a placement."""
    held = nothing.astype(np.float64)
    fastest = np.where(np.isfinite(problem.time_s), problem.time_s, np.inf).min(axis=1)
    np.add.at(held, (given[units.of_op], start), fastest)
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
