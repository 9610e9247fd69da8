"""What a placement costs, on whatever machine its problem is for."""

from __future__ import annotations

from mcm_compiler.partition import Evaluate, Ints, PartitionProblem
from mcm_passes.mapping.machine.evaluation import MachineEvaluation, machine_model
from mcm_passes.partitioning import fast_model
from mcm_passes.partitioning.fast_periods import FastPeriods


def evaluate(problem: PartitionProblem, chip_of: Ints) -> fast_model.Evaluation | MachineEvaluation:
    """What a placement costs per inference; its entries for clonable units are not looked at."""
    if problem.machine is None:
        return fast_model.evaluate(problem, chip_of)
    return machine_model(problem).evaluate(chip_of)


def periods_of(problem: PartitionProblem) -> Evaluate:
    """The period of placements, infinite where a rule is broken."""
    if problem.machine is None:
        return FastPeriods(problem)
    model = machine_model(problem)

    def period_s(chip_of: Ints) -> float:
        found = model.evaluate(chip_of)
        return found.period_s if found.valid else float("inf")

    return period_s
