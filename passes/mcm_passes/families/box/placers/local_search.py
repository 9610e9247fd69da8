"""Local search over clusters around weights, and over ever smaller pieces of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.text.option_ranges import above, at_least, checked
from mcm_passes.families.box.search.annealing import Cooling, Judge, anneal
from mcm_passes.families.box.search.coarse_steps import PreparedStep, devices_of_units, prepared
from mcm_passes.families.box.search.robust_score import RobustScore
from mcm_passes.families.box.search.units import striped_starts

CLUSTER_SHARE = 0.05
"""Of all evaluations, what search over whole clusters may take."""


@dataclass(frozen=True)
@checked(
    parts=at_least(1),
    restarts=at_least(1),
    hot=above(0),
    cold=above(0),
)
class LocalSearch(RobustScore):
    """Annealing over clusters around weights, then over pieces of them.

    Ops join the nearest weight; whole clusters find devices from striped starts; then clusters are
    divided, by how long ops may wait and by depth, and the pieces move. No names are needed.

    Attributes:
        parts: into which each cluster is divided by depth in the end.
        restarts: walks over pieces, each from the best placement that is known.
        hot: temperature at the begin of a walk, as a share of the score.
        cold: at its end.
    """

    name: ClassVar[str] = "local_search"
    summary: ClassVar[str] = "annealing over clusters around weights, then over pieces of them"
    searches: ClassVar[bool] = True

    parts: int = 8
    restarts: int = 1
    hot: float = 0.01
    cold: float = 2e-4

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Searches until the evaluations are spent."""
        judge = self.judge(request)
        step = prepared(request.problem, request.box)
        search_pieces(self, step, judge, request)
        return judge.answer(
            "clusters, then pieces of them",
            ("clusters", float(step.clusters.max(initial=-1) + 1)),
            ("conditions", float(len(judge.evaluators))),
        )


def search_pieces(
    options: LocalSearch, step: PreparedStep, judge: Judge, request: PlacerRequest
) -> None:
    """Runs the search; the judge has the best placement in the end.

    Args:
        options: see there.
        step: what is placed.
        judge: of placements.
        request: has the seed, and may have a start, which is scored first. The search begins with
            the best placement.
    """
    rng, start, progress = np.random.default_rng(request.seed), request.start, request.progress
    allowance = judge.left
    if start is not None:
        judge.score(start)
    if not step.problem.num_ops:
        return
    units = step.whole_clusters()
    progress(f"local search over {units.count} clusters")
    for devices in striped_starts(units, step.first_uses(), step.box, step.speeds):
        if judge.may_ask or not len(judge.best):
            judge.score(step.ways.placement(devices[units.of_op]))
    steps = [(units, CLUSTER_SHARE)] if start is None else []
    steps += [(step.pieces(options.parts), 1.0 / options.restarts)] * options.restarts
    for units, share in steps:
        if not judge.may_ask:
            return
        evaluations = int(min(allowance * share, judge.left))
        progress(f"local search over {units.count} units, {evaluations} evaluations")
        devices = devices_of_units(units, judge.best, step.duration, step.box.num_devices)
        cooling = Cooling(evaluations, options.hot, options.cold)
        anneal(units, devices, step.ways, step.speeds, judge, rng, cooling)
