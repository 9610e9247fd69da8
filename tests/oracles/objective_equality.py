"""What the compiler answers for an objective, beside what trying every placement comes to."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.families.ring.objectives.frontier import Frontier
from mcm_passes.mapping.solving.objective_solve import solve_for
from mcm_passes.mapping.solving.solve import solve
from mcm_passes.parallelism.replicas.objective_search import numbers_of_pipelines, solve_objective
from mcm_passes.parallelism.replicas.replica_search import Solved
from mcm_passes.parallelism.replicas.replicas import equal_chips
from tests.oracles.plain_objectives import (
    all_figures,
    fewest_chips,
    least_energy,
    least_latency,
    least_period_within,
)

INFINITY = float("inf")


def answered(problem: PartitionProblem, objective: Objective) -> tuple[float, float]:
    """Value and bound of what the compiler finds; infinite where it proves that there is nothing.

    Raises:
        CompileError: where it finds nothing and proves nothing.
    """

    def solve_one(shared: PartitionProblem, pipelines: int, sought: Objective, /) -> Solved:
        del pipelines
        budget = Budget(objective=sought)
        solver, strategy = (solve, Ideals()) if sought.aim == "period" else (solve_for, Frontier())
        rng = np.random.default_rng(0)
        found = solver(shared, strategy, rng, budget, strategy_text="exact")
        return Solved(found, True, lambda: found.period_s)

    try:
        found = solve_objective(problem, objective, numbers(problem), solve_one)
    except CompileError as error:
        if "was found" in str(error) or "MCM-P008" in str(error):
            raise
        return INFINITY, INFINITY
    figures = found.partition.figures
    assert figures is not None
    return figures.value, figures.bound


def numbers(problem: PartitionProblem) -> tuple[int, ...]:
    """Of pipelines that can stand side by side."""
    return numbers_of_pipelines(problem, None, "" if equal_chips(problem) else "chips differ")


def differences(problem: PartitionProblem, *, exact: bool = True) -> list[str]:
    """Where the compiler's answers differ from those of trying everything, in words.

    Args:
        problem: small.
        exact: whether value and bound must be the optimum; else the one may be above it and the
            other below, as where the host reaches only the ends or chips share its channel.
    """
    known = all_figures(problem)
    latencies = sorted({one.latency_s for one in known})
    periods = sorted({one.period_s for one in known})
    cases = [
        (Objective("latency"), least_latency(problem)),
        (Objective("energy"), least_energy(problem)),
    ]
    counts = list(numbers(problem))
    limits = [latencies[0], latencies[len(latencies) // 2], 0.9 * latencies[0]] if known else []
    for limit_s in limits:
        wanted = least_period_within(problem, limit_s, counts)
        cases.append((Objective(max_latency_s=limit_s), wanted))
    every = list(range(1, problem.num_chips + 1)) if len(counts) > 1 else counts
    for period_s in (periods[0] / 2, periods[len(periods) // 2]) if known else ():
        rate = 1.0 / period_s
        wanted = fewest_chips(problem, rate, every)
        cases.append((Objective("chips", throughput_per_s=rate), wanted))
    found: list[str] = []
    for objective, wanted in cases:
        try:
            value, bound = answered(problem, objective)
        except CompileError:
            if exact:
                raise
            # Nothing is found, and nothing is claimed.
            continue
        agree = _same(value, wanted) and _same(bound, wanted)
        if not exact:
            agree = bound <= wanted * (1.0 + 1e-9) and wanted <= value * (1.0 + 1e-9)
        if not agree:
            found.append(f"{objective}: {value!r}, at least {bound!r}, by trying all {wanted!r}")
    return found


def _same(one: float, other: float) -> bool:
    return one == other or abs(one - other) <= 1e-8 * other
