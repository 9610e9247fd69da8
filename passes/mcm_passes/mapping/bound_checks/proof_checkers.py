"""The checks of `bound_checks.py` as components that `mcmc check` finds by the kind of proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.bound_checks.bound_checks import CHECKS, MOST_UNITS
from mcm_passes.mapping.bounds.infeasibility import impossible

Check = Callable[[PartitionProblem, float], bool]


@dataclass(frozen=True)
class Argument:
    """One kind of argument, carried out up to a size.

    Attributes:
        summary: what it says.
        check: whether it rules out a period.
        most_units: units up to which it is carried out; None for any number.
        effort: see `ProofChecker`.
    """

    summary: str
    check: Check
    most_units: int | None = None
    effort: int = 0

    @property
    def undecided(self) -> str:
        """See `ProofChecker`."""
        return f"the problem has more than {self.most_units} units"

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`."""
        shown = bool(self.check(problem, period_s))
        too_large = self.most_units is not None and problem.num_units > self.most_units
        return None if too_large and not shown else shown


@dataclass(frozen=True)
class RoomArgument:
    """Weights that no device holds, or all of them together, whatever the period."""

    summary: str = "there is not room enough"
    undecided: str = "the room that tensors take is not derived again"
    effort: int = 0

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`; the weights of every unit are added up in plain Python."""
        if not problem.streams:
            own = [0] * problem.num_units
            total = 0
            for w, size in enumerate(problem.weight_bytes.tolist()):
                users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
                total += size if users.size else 0
                for u in users.tolist():
                    own[u] += size
            sram = problem.limits.sram_bytes
            if total > sum(sram) or max(own, default=0) > max(sram):
                return True
        return None if impossible(problem) else False


HEAVIEST_UNIT = Argument("a unit is not divided", CHECKS["heaviest_unit"])
TOTAL_WORK = Argument("all devices share the work", CHECKS["total_work"])
INDIVISIBLE_WORK = Argument("units do not pack into devices", CHECKS["indivisible_work"])
COPIED_WEIGHTS = Argument("copies of weights do not fit", CHECKS["copied_weights"])
HOST_TRANSFERS = Argument("the host's channels are too busy", CHECKS["host_transfers"])
STREAMED_WEIGHTS = Argument("weights have to be read again", CHECKS["streamed_weights"])
LARGE_TENSORS = Argument("large tensors tie units together", CHECKS["tensors_too_large_to_cross"])
AROUND_UNITS = Argument(
    "work lies before and after a unit", CHECKS["work_around_a_unit"], MOST_UNITS, effort=1
)
OUTPUTS_PASSED_ON = Argument("outputs have to be passed on", CHECKS["outputs_passed_on"])
CHAIN = Argument("units that all work is around", CHECKS["chain_of_units"], MOST_UNITS, 1)
NO_ROOM = RoomArgument()
