"""What an objective wants small, of placements on a ring."""

from __future__ import annotations

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Evaluate, Ints, LowerBound, PartitionProblem
from mcm_passes.families.ring.analytic.fast_model import evaluate
from mcm_passes.families.ring.objectives.joules import RingEnergy, least_energy
from mcm_passes.families.ring.objectives.latency import RingLatency
from mcm_passes.families.ring.objectives.latency_bounds import latency_bound
from mcm_passes.mapping.bounds.bounds import lower_bound


def objective_values(problem: PartitionProblem, objective: Objective) -> Evaluate:
    """As `mcm_compiler.contracts.mapping.KnowsObjectives.objective_values`."""
    if objective.aim == "energy":
        return RingEnergy(problem)
    latency = RingLatency(problem)
    if objective.aim == "latency":
        return latency
    most_s = objective.latency_limit_s

    def within(chip_of: Ints) -> float:
        evaluation = evaluate(problem, chip_of)
        if not evaluation.valid or latency.of_valid(evaluation) > most_s:
            return float("inf")
        return evaluation.period_s

    return within


def latency_of(problem: PartitionProblem, chip_of: Ints) -> float:
    """When one inference is answered, whatever memory is estimated."""
    return RingLatency(problem).of_valid(evaluate(problem, chip_of))


def objective_bound(problem: PartitionProblem, objective: Objective) -> LowerBound:
    """As `mcm_compiler.contracts.mapping.KnowsObjectives.objective_bound`."""
    if objective.aim == "energy":
        return least_energy(problem)
    return latency_bound(problem) if objective.aim == "latency" else lower_bound(problem)
