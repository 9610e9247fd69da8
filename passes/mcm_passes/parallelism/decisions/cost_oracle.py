"""The best decision under the `cost` objective, by mixed-integer programming."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    if forced is not None and np.any(forced & problem.blocked):
        return None
    # Loaded late: it takes longer than small problems do.
    from ortools.linear_solver import pywraplp

    solver: Any = pywraplp.Solver.CreateSolver("SCIP")
    high = np.where(problem.blocked, 0.0, 1.0)
    low = np.zeros(problem.num_classes) if forced is None else forced.astype(np.float64)
    classes = [solver.IntVar(*bounds, "") for bounds in zip(low, high, strict=True)]
    terms = [solver.NumVar(0.0, 1.0, "") for _ in cost.term_s]
    for one, other in _conflicting_pairs(problem).tolist():
        _at_most(solver, 1.0, ((classes[one], 1.0), (classes[other], 1.0)))
    owners = np.repeat(np.arange(len(terms)), np.diff(cost.term_ptr))
    for owner, member in zip(owners.tolist(), cost.term_class.tolist(), strict=True):
        _at_most(solver, 0.0, ((classes[member], 1.0), (terms[owner], -1.0)))
    if memory_bytes is not None:
        weights = zip(classes, (cost.class_bytes / 1e6).tolist(), strict=True)
        _at_most(solver, (memory_bytes - cost.base_bytes) / 1e6, weights)
    # Microseconds, so that differences stand out from the solver's tolerances.
    seconds = np.concatenate([cost.class_s, cost.term_s]) * 1e6
    for variable, weight in zip((*classes, *terms), seconds.tolist(), strict=True):
        solver.Objective().SetCoefficient(variable, weight)
    solver.Objective().SetMinimization()
    solver.SetTimeLimit(round(budget_s * 1e3))
    parameters: Any = pywraplp.MPSolverParameters()
    parameters.SetDoubleParam(parameters.RELATIVE_MIP_GAP, 0.0)
    status = solver.Solve(parameters)
    if status not in (solver.OPTIMAL, solver.FEASIBLE):
        return None
    partitioned = np.array([each.solution_value() > 0.5 for each in classes], dtype=np.bool_)
    return CostOptimum(partitioned, cost.seconds(partitioned), bool(status == solver.OPTIMAL))


def _at_most(solver: Any, most: float, terms: Iterable[tuple[Any, float]]) -> None:
    """Adds the constraint that a weighted sum of variables is at most `most`."""
    row = solver.Constraint(-solver.infinity(), most)
    for variable, weight in terms:
        row.SetCoefficient(variable, weight)


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
