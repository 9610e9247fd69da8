"""Checks of bounds on latencies and energies as components, found by the kind of proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.families.ring.exact import certificates
from mcm_passes.families.ring.objectives.checks.energy_check import EnergyCheck, least_rules_out
from mcm_passes.families.ring.objectives.checks.label_check import LabelCheck
from mcm_passes.families.ring.objectives.checks.path_check import (
    host_rules_out,
    path_rules_out,
    work_rules_out,
)


@dataclass(frozen=True)
class LatencyArgument:
    """An argument that needs no search.

    Attributes:
        summary: what it says.
        check: whether it rules out a latency.
    """

    summary: str
    check: Callable[[PartitionProblem, float], bool]
    undecided: str = "it is about latencies alone"

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """See `mcm_compiler.contracts.proofs.ObjectiveChecker`."""
        if objective.aim == "latency":
            return self.check(problem, value)
        if objective.aim == "energy":
            return None
        within_s = objective.latency_limit_s
        return True if self.check(problem, within_s * (1.0 + 1e-9)) else None


@dataclass(frozen=True)
class LabelArgument:
    """Order ideals with labels, weighed and played again up to a number of windows."""

    most_windows: int = certificates.MOST_WINDOWS
    summary: str = "no chain of order ideals is below the value, or answers in time"
    undecided: str = "there are too many order ideals to weigh again, or weights are streamed"

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """See `mcm_compiler.contracts.proofs.ObjectiveChecker`."""
        if objective.aim == "energy":
            return None
        sought_s = value if objective.aim == "latency" else objective.latency_limit_s * (1.0 + 1e-9)
        if any(one(problem, sought_s) for one in (path_rules_out, work_rules_out, host_rules_out)):
            return True
        if problem.num_units > certificates.MOST_UNITS:
            return None
        check = LabelCheck(problem, self.most_windows)
        if objective.aim == "latency":
            shown = check.none_within(value, float("inf"), strictly=True)
        else:
            shown = check.none_within(objective.latency_limit_s, value, strictly=False)
        # Streamed weights delay what is played here without them: no chain is none with them.
        return None if problem.streams and not shown else shown


@dataclass(frozen=True)
class LeastEnergyArgument:
    """What every placement spends, without a search."""

    summary: str = "every unit runs, and the host's traffic crosses its links"
    undecided: str = "it is about energy alone"

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """See `mcm_compiler.contracts.proofs.ObjectiveChecker`."""
        needed = problem.at_need()
        return least_rules_out(needed, value) if objective.aim == "energy" else None


@dataclass(frozen=True)
class EnergyChainArgument:
    """Order ideals with joules, weighed again up to a number of windows."""

    most_windows: int = certificates.MOST_WINDOWS
    summary: str = "no chain of order ideals takes less"
    undecided: str = "there are too many order ideals to weigh again, or it is not about energy"

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """See `mcm_compiler.contracts.proofs.ObjectiveChecker`."""
        needed = problem.at_need()
        if objective.aim != "energy" or needed.energy is None:
            return None
        if least_rules_out(needed, value):
            return True
        if needed.num_units > certificates.MOST_UNITS:
            return None
        return EnergyCheck(needed, needed.energy, self.most_windows).none_takes_less(value)


@dataclass(frozen=True)
class MergedArgument:
    """Order ideals with the best times of all chains up to each, played again."""

    most_windows: int = certificates.MOST_WINDOWS
    summary: str = "no chain of order ideals is below the value, whatever way led to each ideal"
    undecided: str = "there are too many order ideals to play again, chips differ, or one is pinned"

    def rules_out(
        self, problem: PartitionProblem, objective: Objective, value: float
    ) -> bool | None:
        """See `mcm_compiler.contracts.proofs.ObjectiveChecker`."""
        if objective.aim == "energy" or problem.num_units > certificates.MOST_UNITS:
            return None
        check = LabelCheck(problem, self.most_windows)
        if objective.aim == "latency":
            return check.none_merged_within(value, float("inf"), strictly=True)
        within_s = objective.latency_limit_s * (1.0 + 1e-9)
        return check.none_merged_within(within_s, value, strictly=False)


CRITICAL_PATH = LatencyArgument("units wait for each other", path_rules_out)
SHARED_WORK = LatencyArgument("no chip runs two units at a time", work_rules_out)
SHARED_HOST = LatencyArgument("all chips share a channel to the host", host_rules_out)
LABEL_CHAINS = LabelArgument()
MERGED_CHAINS = MergedArgument()
LEAST_ENERGY = LeastEnergyArgument()
ENERGY_CHAINS = EnergyChainArgument()
