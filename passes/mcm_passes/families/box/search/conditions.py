"""Conditions under which a robust placement has to hold."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.contracts.boxes.step import StepProblem

SPREAD = 0.1
"""Ops' times are drawn between 1 - SPREAD and 1 + SPREAD times what the costs say."""


def evaluators_under(
    problem: StepProblem, evaluator: StepEvaluator, request: PlacerRequest, draws: int
) -> tuple[StepEvaluator, ...]:
    """The evaluator itself, one that starts the most urgent ops first, and some with other times.

    Args:
        problem: what is placed.
        evaluator: of it.
        request: may make others; where it does not, the evaluator is alone.
        draws: of times of ops; 0 for the evaluator alone.
    """
    if not draws or request.simulate is None:
        return (evaluator,)
    # Apart from the seeds that moves are drawn with.
    rng = np.random.default_rng([request.seed, 7])
    others = [StepConditions(time_factors=time_factors(problem.num_ops, rng)) for _ in range(draws)]
    others.insert(0, StepConditions(order="critical_path"))
    return (evaluator, *(request.simulate(problem, conditions) for conditions in others))


def time_factors(num_ops: int, rng: np.random.Generator) -> np.ndarray:
    """`[N]`, factors of ops' times, drawn evenly."""
    return rng.uniform(1.0 - SPREAD, 1.0 + SPREAD, num_ops)
