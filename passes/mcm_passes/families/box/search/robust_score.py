"""What a robust placement is judged by: both orders of queues, and the worse of them above all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.text.option_ranges import at_least, between, checked, from_to
from mcm_passes.families.box.search.annealing import Judge, judge_of
from mcm_passes.families.box.search.coarse_steps import prepared
from mcm_passes.families.box.search.units import has_layers, layered_placements, striped_starts

SPREAD = 0.1
"""Ops' times are drawn between 1 - SPREAD and 1 + SPREAD times what the costs say."""

URGENT_SHARE = 0.5
"""Weight of scores under critical-path order; the rest is that of first-in-first-out order. With
more, what is found holds less under other times of ops in the latter."""


def evaluators_under(
    request: PlacerRequest, *, robust: bool, draws: int
) -> tuple[StepEvaluator, ...]:
    """Evaluators in both orders of queues, also with other times of ops.

    Args:
        request: may make others; where it does not, its own evaluator is alone.
        robust: whether others are wanted.
        draws: of times of ops; each is asked for in both orders of queues, so that neither
            outweighs the other.
    """
    if not robust or request.simulate is None:
        return (request.evaluator,)
    # Apart from the seeds that moves are drawn with.
    rng = np.random.default_rng([request.seed, 7])
    conditions = [StepConditions(), StepConditions(order="critical_path")]
    for _ in range(draws):
        factors = time_factors(request.problem.num_ops, rng)
        conditions += [
            StepConditions(time_factors=factors),
            StepConditions(order="critical_path", time_factors=factors),
        ]
    return tuple(request.simulate(request.problem, one) for one in conditions)


def weights_of(evaluators: Sequence[StepEvaluator], urgent: float) -> Floats:
    """`[conditions]`, of scores under what `evaluators_under` made.

    Args:
        evaluators: one alone, or in both orders of queues by turns.
        urgent: share of the order that starts the most urgent ops first.
    """
    return np.resize([1.0 - urgent, urgent], len(evaluators))


def time_factors(num_ops: int, rng: np.random.Generator) -> Floats:
    """`[N]`, factors of ops' times, drawn evenly."""
    return rng.uniform(1.0 - SPREAD, 1.0 + SPREAD, num_ops)


WORST_SHARE = 0.8
"""Share of the worse order of queues in a robust score. The rest, of the mean, is for moves that
leave the worse as it is; without any of it, search finds less in both orders."""

REFERENCE_SHARE = 0.05
"""Of all evaluations, what finding a reference may take."""


@dataclass(frozen=True, kw_only=True)
@checked(draws=at_least(0), urgent=between(0, 1), worst=from_to(0, 1))
class RobustScore:
    """Conditions under which placements are scored; options of the placers that search.

    Attributes:
        robust: whether both orders of queues count, where the request can simulate them.
        draws: of times of ops, each within 10 percent, that count as well, in both orders.
        urgent: share of critical-path order in the mean, between 0 and 1.
        worst: share of the worse order, over what a plain placement takes in it, from 0 to 1;
            the rest is the mean's.
    """

    robust: bool = True
    draws: int = 0
    urgent: float = URGENT_SHARE
    worst: float = WORST_SHARE

    def judge(self, request: PlacerRequest) -> Judge:
        """A judge of placements that keeps to the request; references are spent already."""
        evaluators = evaluators_under(request, robust=self.robust, draws=self.draws)
        judge = judge_of(request, *evaluators)
        judge.weights = weights_of(evaluators, self.urgent)
        if len(evaluators) > 1 and self.worst > 0.0 and request.problem.num_ops:
            allowed = max(int(request.evaluations * REFERENCE_SHARE), 1)
            plain = plain_placements(request.problem, request.box)[:allowed]
            judge.references = reference_times(evaluators, plain)
            judge.worst = self.worst
            judge.spend(len(plain) + len(evaluators) - 1)
        return judge


def plain_placements(problem: StepProblem, box: Box) -> Ints:
    """`[P, N]`, placements that need no search: layers in order, or stripes where names tell none.

    How long a step may take in one order of queues, if it takes so long in the other, depends on
    the graph (1.07 to 1.53 times as long with the expert's placements of recurrent networks).
    """
    if has_layers(problem):
        return layered_placements(problem, box)
    step = prepared(problem, box)
    units = step.whole_clusters()
    starts = striped_starts(units, step.first_uses(), box, step.speeds)
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
