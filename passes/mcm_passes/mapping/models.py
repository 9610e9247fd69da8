"""The family of machines that a problem is for, and what a placement costs there."""

from __future__ import annotations

from typing import cast

from mcm_compiler.contracts.mapping import Evaluation, FamilyMapping
from mcm_compiler.contracts.partition import Evaluate, Ints, PartitionProblem, PartitionStrategy
from mcm_compiler.machines.machine import RING
from mcm_compiler.registry import MAPPINGS
from mcm_passes.mapping.search import named


def mapping_for(family: str) -> FamilyMapping:
    """The mapping of a family of machines: the registered one, or that of any machine.

    Raises:
        CompileError: MCM-U003 for a ring where nothing knows rings, MCM-X003 for a mapping that
            cannot be imported.
    """
    if family != RING and family not in MAPPINGS:
        from mcm_passes.mapping.machine.any_machine import ANY_MACHINE

        return ANY_MACHINE
    return cast("FamilyMapping", MAPPINGS.get(family))


def mapping_of(problem: PartitionProblem) -> FamilyMapping:
    """The mapping of the family that a problem is for; see `mapping_for`."""
    return mapping_for(problem.family)


def adapted(problem: PartitionProblem, text: str) -> PartitionStrategy:
    """A strategy by its text, in the form that places ops on the machine of a problem.

    Raises:
        CompileError: as `named.strategy_of`.
    """
    strategy = named.strategy_of(text)
    return mapping_of(problem).adapted(text, strategy) or strategy


def evaluate(problem: PartitionProblem, chip_of: Ints) -> Evaluation:
    """Cost of a placement per inference; its entries for clonable units are not looked at."""
    return mapping_of(problem).evaluate(problem, chip_of)


def periods_of(problem: PartitionProblem) -> Evaluate:
    """The period of placements, infinite where a rule is broken."""
    return mapping_of(problem).periods(problem)
