"""The best decision, proven: a weighted independent set by enumeration or CP-SAT.

The graph falls apart into parts that share neither conflicts nor terms of the objective. Small
parts are enumerated, and what is left goes to CP-SAT at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions import decision_problem
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective

ENUMERATED = 10
"""Most classes of a part whose decisions are all tried."""

RESOLUTION = 1 << 40
"""Integer that CP-SAT sees for the sum of all gains, where they are not integers."""


@dataclass(frozen=True, eq=False)
class OracleDecision:
    """Decision that exact search found.

    Attributes:
        partitioned: `[K]` bool, feasible.
        value: what it is worth.
        bound: no feasible decision is worth more, but for the resolution of CP-SAT.
        proven: whether the two are the same.
    """

    partitioned: NDArray[np.bool_]
    value: float
    bound: float
    proven: bool


@dataclass(frozen=True, eq=False)
class _Part:
    """Some classes, as a problem of their own; C classes, T terms.

    Attributes:
        conflicts: `[C, C]` bool.
        linear: `[C]`.
        members: `[T, C]` bool.
        term_gain: `[T]`.
        forced: `[C]` bool, must be partitioned.
    """

    conflicts: NDArray[np.bool_]
    linear: NDArray[np.float64]
    members: NDArray[np.bool_]
    term_gain: NDArray[np.float64]
    forced: NDArray[np.bool_]

    def only(self, classes: NDArray[np.int64]) -> _Part:
        members = self.members[:, classes]
        met = members.any(axis=1)
        return _Part(
            self.conflicts[np.ix_(classes, classes)],
            self.linear[classes],
            members[met],
            self.term_gain[met],
            self.forced[classes],
        )


def best_decision(
    problem: decision_problem.DecisionProblem,
    objective: DecisionObjective,
    effort_s: float = 10.0,
    *,
    forced: NDArray[np.bool_] | None = None,
) -> OracleDecision:
    """The feasible decision that is worth most.

    Args:
        problem: what is decided about.
        objective: what it is worth.
        effort_s: deterministic seconds of CP-SAT.
        forced: `[K]` bool, classes that must be partitioned.

    Raises:
        ValueError: if the forced classes are not feasible.
    """
    if forced is None:
        forced = np.zeros(problem.num_classes, dtype=bool)
    elif not problem.is_feasible(forced):
        raise ValueError("the forced classes cannot all be partitioned")
    members, gains = objective.members, objective.term_gain
    whole = _Part(problem.conflicts, objective.linear, members, gains, forced)
    # A class that adds nothing by itself nor with its terms would only stand in the way.
    hope = objective.linear + np.maximum(gains, 0.0) @ members
    kept = np.flatnonzero(~problem.blocked & ((hope > 0) | forced))
    part = whole.only(kept)
    linked = part.conflicts.copy()
    # Each class of a term with the next one: a product of all would take cubic time.
    term, member = np.nonzero(part.members)
    together = term[1:] == term[:-1]
    one, other = member[1:][together], member[:-1][together]
    linked[one, other] = linked[other, one] = True
    chosen = np.zeros(len(kept), dtype=bool)
    large: list[NDArray[np.int64]] = []
    for classes in decision_problem.components(linked):
        if len(classes) > ENUMERATED:
            large.append(classes)
        else:
            chosen[classes] = _enumerated(part.only(classes))
    slack = 0.0
    if large:
        classes = np.concatenate(large)
        chosen[classes], slack = _by_cp_sat(part.only(classes), effort_s)
    partitioned = np.zeros(problem.num_classes, dtype=bool)
    partitioned[kept] = chosen
    value = objective.value(partitioned)
    return OracleDecision(partitioned, value, value + slack, slack == 0.0)


def _enumerated(part: _Part) -> NDArray[np.bool_]:
    """The best of all subsets."""
    count = len(part.linear)
    subsets = ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1).astype(np.float64)
    clashes = ((subsets @ part.conflicts.astype(np.float64)) * subsets).sum(axis=1)
    clashes += (1.0 - subsets) @ part.forced
    paid = subsets @ part.members.T.astype(np.float64) > 0
    value = subsets @ part.linear + paid @ part.term_gain
    best = int(np.argmax(np.where(clashes > 0, -np.inf, value)))
    return subsets[best] > 0


def _by_cp_sat(part: _Part, effort_s: float) -> tuple[NDArray[np.bool_], float]:
    """The best that CP-SAT finds, and how much more there might be."""
    from ortools.sat.python import cp_model

    numbers = np.concatenate([part.linear, part.term_gain])
    is_whole = np.array_equal(numbers, np.rint(numbers))
    scale = 1.0 if is_whole else RESOLUTION / max(float(np.abs(numbers).sum()), 1e-30)
    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in part.linear]
    terms = [(taken[k], round(float(gain) * scale)) for k, gain in enumerate(part.linear)]
    for k in np.flatnonzero(part.forced).tolist():
        model.add(taken[k] == 1)
    for one, other in np.argwhere(np.triu(part.conflicts)).tolist():
        model.add_at_most_one(taken[one], taken[other])
    for row, gain in zip(part.members, part.term_gain.tolist(), strict=True):
        paid = model.new_bool_var("")
        model.add_max_equality(paid, [taken[k] for k in np.flatnonzero(row).tolist()])
        terms.append((paid, round(gain * scale)))
    model.maximize(sum(gain * variable for variable, gain in terms))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = effort_s
    status = solver.solve(model)
    if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        # The forced ones alone are always feasible, so that only the effort can have run out.
        most = np.maximum(part.linear, 0.0).sum() + np.maximum(part.term_gain, 0.0).sum()
        paid = part.term_gain[(part.members & part.forced).any(axis=1)].sum()
        return part.forced.copy(), float(most - part.linear[part.forced].sum() - paid)
    chosen = np.array([solver.boolean_value(variable) for variable in taken])
    slack = (solver.best_objective_bound - solver.objective_value) / scale
    return chosen, 0.0 if status == cp_model.OPTIMAL else max(slack, 0.0)
