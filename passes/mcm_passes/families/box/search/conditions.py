"""Conditions under which a robust placement has to hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.boxes.box import StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerRequest

SPREAD = 0.1
"""Ops' times are drawn between 1 - SPREAD and 1 + SPREAD times what the costs say."""

URGENT_SHARE = 0.5
"""Weight of scores under critical-path order; the rest is that of first-in-first-out order. With
more, what is found holds less under other times of ops in the latter."""


def evaluators_under(
    problem: StepProblem,
    evaluator: StepEvaluator,
    request: PlacerRequest,
    *,
    robust: bool,
    draws: int,
) -> tuple[StepEvaluator, ...]:
    """The evaluator alone, or evaluators in both orders of queues, also with other times of ops.

    Args:
        problem: what is placed.
        evaluator: of it, in whatever order.
        request: may make others; where it does not, the evaluator is alone.
        robust: whether others are wanted.
        draws: of times of ops; each is asked for in both orders of queues, so that neither
            outweighs the other.
    """
    if not robust or request.simulate is None:
        return (evaluator,)
    # Apart from the seeds that moves are drawn with.
    rng = np.random.default_rng([request.seed, 7])
    conditions = [StepConditions(), StepConditions(order="critical_path")]
    for _ in range(draws):
        factors = time_factors(problem.num_ops, rng)
        conditions += [
            StepConditions(time_factors=factors),
            StepConditions(order="critical_path", time_factors=factors),
        ]
    return tuple(request.simulate(problem, one) for one in conditions)


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
