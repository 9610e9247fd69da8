"""Placers: rules, local search over clusters around weights and their pieces, and the portfolio."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes import placers
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text
from mcm_compiler.text.option_fields import above, at_least, between, checked, from_to, with_options
from mcm_passes.families.box.search.annealing import Cooling, Judge, anneal, judge_of
from mcm_passes.families.box.search.coarse_steps import PreparedStep, devices_of_units, prepared
from mcm_passes.families.box.search.units import (
    STACKS,
    fallbacks,
    has_layers,
    layered_placements,
    striped_starts,
)


@dataclass(frozen=True)
class Cpu:
    """All ops on the host; those that it may not run where they run fastest."""

    name: ClassVar[str] = "cpu"
    summary: ClassVar[str] = "all ops on the host"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates one placement."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("all on the host")
        judge.score(fallbacks(problem, box).placement(np.full(problem.num_ops, box.host)))
        return judge.answer("all on the host")


@dataclass(frozen=True)
class Single:
    """All ops on one device, the best one; those that it may not run where they run fastest."""

    name: ClassVar[str] = "single"
    summary: ClassVar[str] = "all ops on one device, the best"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates one placement for each device; of equal ones the first."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("all on one device, each in turn")
        ways = fallbacks(problem, box)
        scores = [
            judge.score(ways.placement(np.full(problem.num_ops, device)))
            for device in range(box.num_devices)
        ]
        return judge.answer(f"all on {box.devices[int(np.argmin(scores))]}")


@dataclass(frozen=True)
class Expert:
    """Layers in order over the fast devices, as many on each, in one stack or in two.

    Experts placed recurrent networks so (Wu et al. 2016, *Google's Neural Machine Translation
    System*, section 3.2; Mirhoseini et al. 2018, section 4). Each layer is on a GPU of its own, the
    embedding with the first, softmax and loss with the last. An encoder and a decoder each use all
    devices. Names do not show how many stacks there are, so the better of both is taken. Ops whose
    names have no layer go with the nearest op of a known layer, updates with their variables.
    """

    name: ClassVar[str] = "expert"
    summary: ClassVar[str] = "layers in order over the fast devices, by names"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates two placements.

        Raises:
            CompileError: MCM-D050 where no op has a layer.
        """
        request.progress("layers in order")
        placements = layered_placements(request.problem, request.box)
        judge = judge_of(request)
        scores = [judge.score(placement) for placement in placements]
        stacks = STACKS[int(np.argmin(scores))]
        layers = int(request.problem.layer.max()) + 1
        return judge.answer(f"{layers} layers, in {stacks} stacks over the fast devices")


URGENT_SHARE = 0.5
"""Weight of scores under critical-path order; the rest is that of first-in-first-out order. With
more, what is found holds less under other times of ops in the latter."""


def evaluators_under(request: PlacerRequest, *, robust: bool) -> tuple[StepEvaluator, ...]:
    """Evaluators in both orders of queues.

    Args:
        request: may make others; where it does not, its own evaluator is alone.
        robust: whether others are wanted.
    """
    if not robust or request.simulate is None:
        return (request.evaluator,)
    conditions = StepConditions(), StepConditions(order="critical_path")
    return tuple(request.simulate(request.problem, one) for one in conditions)


WORST_SHARE = 0.8
"""Share of the worse order of queues in a robust score. The rest, of the mean, is for moves that
leave the worse as it is; without any of it, search finds less in both orders."""

REFERENCE_SHARE = 0.05
"""Of all evaluations, what finding a reference may take."""


@dataclass(frozen=True, kw_only=True)
@checked(urgent=between(0, 1), worst=from_to(0, 1))
class RobustScore:
    """Conditions under which placements are scored; options of the placers that search.

    Attributes:
        robust: whether both orders of queues count, where the request can simulate them.
        urgent: share of critical-path order in the mean, between 0 and 1.
        worst: share of the worse order, over what a plain placement takes in it, from 0 to 1;
            the rest is the mean's.
    """

    robust: bool = True
    urgent: float = URGENT_SHARE
    worst: float = WORST_SHARE

    def judge(self, request: PlacerRequest) -> Judge:
        """The scores of placements within a request; references are spent already."""
        evaluators = evaluators_under(request, robust=self.robust)
        judge = judge_of(request, *evaluators)
        if len(evaluators) == 1:
            return judge
        judge.weights = np.array([1.0 - self.urgent, self.urgent])
        if self.worst > 0.0 and request.problem.num_ops:
            allowed = max(int(request.evaluations * REFERENCE_SHARE), 1)
            plain = plain_placements(request.problem, request.box)[:allowed]
            judge.references = reference_times(evaluators, plain)
            judge.worst = self.worst
            judge.spend(len(plain) + len(evaluators) - 1)
        return judge


def plain_placements(problem: StepProblem, box: Box) -> Ints:
    """`[P, N]`, placements that need no search: layers in order, or stripes where names have none.

    The ratio of a step's times in the two orders of queues depends on the graph: 1.07 to 1.53 with
    the expert's placements of recurrent networks.
    """
    if has_layers(problem):
        return layered_placements(problem, box)
    step = prepared(problem, box)
    units = step.whole_clusters()
    starts = striped_starts(units, step.first_uses(), step.speeds)
    return np.stack([step.ways.placement(devices[units.of_op]) for devices in starts])


def reference_times(evaluators: Sequence[StepEvaluator], placements: Ints) -> Floats:
    """`[conditions]` above 0, seconds of the placement that is best under the first conditions.

    Args:
        evaluators: at least 1.
        placements: `[P, N]`, at least 1.
    """
    first = evaluators[0].evaluate(placements)
    best = placements[[int(first.score.argmin())]]
    # Memory that overflows is no time: it may do so in one order alone.
    times = [float(first.seconds[first.score.argmin()])]
    times += [float(evaluator.evaluate(best).seconds[0]) for evaluator in evaluators[1:]]
    return np.maximum(np.array(times), 1e-300)


CLUSTER_SHARE = 0.05
"""Of all evaluations, what search over whole clusters may take."""


@dataclass(frozen=True)
@checked(parts=at_least(1), restarts=at_least(1), hot=above(0), cold=above(0))
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
    """Runs the search; `judge` has the best placement in the end.

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
    for devices in striped_starts(units, step.first_uses(), step.speeds):
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


@dataclass(frozen=True)
class Portfolio(RobustScore):
    """Runs its members and keeps the best placement, under one score for all.

    Evaluations that are left are shared equally between the members still to come. Each member
    that searches starts from the best placement so far, and `local_search` without options of its
    own searches by the same score.

    Attributes:
        members: placers, in the order in which they run; at least 1.
    """

    name: ClassVar[str] = "portfolio"
    summary: ClassVar[str] = "several placers in turn, each from the best so far"
    searches: ClassVar[bool] = True

    members: tuple[str, ...] = ("single", "local_search")

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Runs the members until the evaluations are spent.

        Raises:
            CompileError: MCM-D053 for members that are none; what members raise.
        """
        members = [self._member(text) for text in self.members]
        if not members:
            raise _no_member("the option names no placer")
        judge = self.judge(request)
        best, methods = request.start, [""]
        if best is not None:
            judge.score(best)
        for k, placer in enumerate(members):
            # What is kept back is for judging the answer.
            left = (judge.left - len(judge.evaluators)) // (len(members) - k)
            if len(judge.best) and (left < 1 or not judge.may_ask):
                break
            seconds = judge.ends_at - time.perf_counter()
            rest = dataclasses.replace(
                request,
                evaluations=max(left, 1),
                # A copy: what the judge keeps is nobody's to change.
                start=None if best is None else best.copy(),
                budget_s=max(seconds, 0.0) if np.isfinite(seconds) else None,
            )
            text = self.members[k]
            answer = placers.placer_answer(text, placer, rest)
            judge.spend(answer.evaluations)
            known = judge.best_score
            with PLACERS.at_work(spec_text.parse_one(text).name):
                better = judge.score(answer.device_of) < known
            if better:
                methods.append(f"{placer.name}: {answer.method}")
            best = judge.best
        return judge.answer(methods[-1] or "as given", ("conditions", float(len(judge.evaluators))))

    def _member(self, text: str) -> placers.Placer:
        spec = spec_text.parse_one(text)
        if spec.name == self.name:
            raise _no_member("the portfolio is no member of itself")
        if spec.name == LocalSearch.name and not spec.options:
            return cast("placers.Placer", with_options(LocalSearch(), self))
        return placers.placer_of(text)


def _no_member(message: str) -> CompileError:
    return CompileError.of("MCM-D053", message, at="placer portfolio, option members")
