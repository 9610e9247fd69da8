"""The best decision under the `cost` objective, by mixed-integer programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem, unpack_bits
from mcm_passes.parallelism.decisions.step_cost import StepCost


@dataclass(frozen=True, eq=False)
class CostOptimum:
    """The best decision.

    Attributes:
        partitioned: `[K]` bool.
        seconds: of a step.
        proven: no other decision is better.
    """

    partitioned: NDArray[np.bool_]
    seconds: float
    proven: bool


def cheapest_decision(
    problem: DecisionProblem,
    cost: StepCost,
    *,
    forced: NDArray[np.bool_] | None = None,
    memory_bytes: float | None = None,
    budget_s: float = 60.0,
) -> CostOptimum | None:
    """The feasible decision that takes the least seconds.

    One binary for each class, and for each communication term a number from 0 to 1 that is at
    least the binary of each of its classes; its cost is positive, so that it is never larger.

    Args:
        problem: what may be decided.
        cost: of the same problem.
        forced: `[K]` bool, classes that must be partitioned.
        memory_bytes: most bytes of a device.
        budget_s: after which the best decision found so far is taken.

    Returns:
        None if no decision is feasible.
    """
    from scipy import optimize
    from scipy.sparse import coo_array

    count, terms = problem.num_classes, len(cost.term_s)
    width = count + terms
    pairs = _conflicting_pairs(problem)
    owners = np.repeat(np.arange(terms), np.diff(cost.term_ptr))
    rows = np.arange(len(pairs) + len(owners))
    at_pairs, at_terms = rows[: len(pairs)], rows[len(pairs) :]
    matrix = coo_array(
        (
            np.concatenate([np.ones(2 * len(pairs)), np.ones(len(owners)), -np.ones(len(owners))]),
            (
                np.concatenate([at_pairs, at_pairs, at_terms, at_terms]),
                np.concatenate([pairs[:, 0], pairs[:, 1], cost.term_class, count + owners]),
            ),
        ),
        shape=(max(len(rows), 1), width),
    ).tocsr()
    most = np.concatenate([np.ones(len(pairs)), np.zeros(len(owners))])
    constraints = [_at_most(matrix, most)] if len(rows) else []
    if memory_bytes is not None:
        row = np.concatenate([cost.class_bytes, np.zeros(terms)]) / 1e6
        constraints.append(_at_most(row, (memory_bytes - cost.base_bytes) / 1e6))
    low = np.zeros(width)
    high = np.ones(width)
    high[:count][problem.blocked] = 0.0
    if forced is not None:
        low[:count][forced] = 1.0
        if np.any(forced & problem.blocked):
            return None
    # Microseconds, so that differences stand out from the solver's tolerances.
    weights = np.concatenate([cost.class_s, cost.term_s]) * 1e6
    result = cast("Any", optimize).milp(
        weights,
        integrality=np.concatenate([np.ones(count), np.zeros(terms)]),
        bounds=cast("Any", optimize).Bounds(low, high),
        constraints=constraints,
        options={"time_limit": budget_s, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return None
    partitioned = result.x[:count] > 0.5
    return CostOptimum(partitioned, cost.seconds(partitioned), bool(result.status == 0))


def _at_most(matrix: Any, most: Any) -> Any:
    """`matrix @ x <= most`; SciPy's annotations know numbers only."""
    from scipy import optimize

    return cast("Any", optimize).LinearConstraint(matrix, -np.inf, most)


def _conflicting_pairs(problem: DecisionProblem) -> NDArray[np.int64]:
    """`[P, 2]`, each pair of classes that may be partitioned, but not both."""
    free = np.flatnonzero(~problem.blocked)
    pairs = [
        (one, other)
        for one in free.tolist()
        for other in np.flatnonzero(
            unpack_bits(problem.conflicts[one], problem.num_classes) & ~problem.blocked
        ).tolist()
        if other > one
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
