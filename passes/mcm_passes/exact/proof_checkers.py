"""The checks of `certificates.py` as components that `mcmc check` finds by the kind of proof."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.partition import PartitionProblem
from mcm_passes.exact import certificates
from mcm_passes.exact.ideal_check import IdealCheck
from mcm_passes.exact.packed_check import MOST_UNITS as MOST_PACKED_UNITS
from mcm_passes.partitioning.infeasibility import impossible

SOLVERS_WORD = "it is taken from the solver's word, which comes without a proof to follow"


@dataclass(frozen=True)
class Argument:
    """One kind of argument, carried out up to a size.

    Attributes:
        summary: what it says.
        kind: name of the proof.
        most_units: units up to which it is carried out; None for any number.
        effort: see `ProofChecker`.
    """

    summary: str
    kind: str
    most_units: int | None = None
    effort: int = 0

    @property
    def undecided(self) -> str:
        """See `ProofChecker`."""
        return f"the problem has more than {self.most_units} units"

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`."""
        shown = bool(certificates.check_of(self.kind)(problem, period_s))
        too_large = self.most_units is not None and problem.num_units > self.most_units
        return None if too_large and not shown else shown


@dataclass(frozen=True)
class IdealArgument:
    """Order ideals, weighed up to a number of windows.

    Attributes:
        most_windows: how many; plain Python weighs about 12,000 a second.
    """

    most_windows: int = certificates.MOST_WINDOWS
    summary: str = "no chain of order ideals is faster"
    undecided: str = "there are too many order ideals to weigh again"
    effort: int = 2

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`."""
        if problem.num_units > certificates.MOST_UNITS:
            return None
        return IdealCheck(problem, self.most_windows).none_below(period_s)


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


@dataclass(frozen=True)
class SolverArgument:
    """A solver's word: shown only where an argument that can be followed is as strong."""

    summary: str = "the dual bound of CP-SAT"
    undecided: str = SOLVERS_WORD
    effort: int = 2

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`; never False, since a weaker argument contradicts nothing."""
        shown = any(checker.rules_out(problem, period_s) for checker in _QUICK_FIRST)
        return shown or _FEW_IDEALS.rules_out(problem, period_s)


HEAVIEST_UNIT = Argument("a unit is not divided", "heaviest_unit")
TOTAL_WORK = Argument("all devices share the work", "total_work")
INDIVISIBLE_WORK = Argument("units do not pack into devices", "indivisible_work")
COPIED_WEIGHTS = Argument("copies of weights do not fit", "copied_weights")
HOST_TRANSFERS = Argument("the host's channels are too busy", "host_transfers")
STREAMED_WEIGHTS = Argument("weights have to be read again", "streamed_weights")
LARGE_TENSORS = Argument("large tensors tie units together", "tensors_too_large_to_cross")
AROUND_UNITS = Argument(
    "work lies before and after a unit", "work_around_a_unit", certificates.MOST_UNITS, effort=1
)
OUTPUTS_PASSED_ON = Argument("outputs have to be passed on", "outputs_passed_on")
CHAIN = Argument("units that all work is around", "chain_of_units", certificates.MOST_UNITS, 1)
WINDOWS = Argument("a unit has no device left", "windows", certificates.MOST_UNITS, effort=1)
LINK_CUTS = Argument(
    "a channel must carry too much", "link_cuts", certificates.MOST_UNITS, effort=2
)
PACKED_WINDOWS = Argument(
    "units and weights do not pack in order",
    "packed_windows",
    MOST_PACKED_UNITS,
    effort=2,
)
NO_ROOM = RoomArgument()
IDEALS = IdealArgument()
_FEW_IDEALS = IdealArgument(most_windows=100_000)
"""Where nobody says that this argument holds."""
CPSAT = SolverArgument()

_QUICK_FIRST = (
    TOTAL_WORK,
    HEAVIEST_UNIT,
    HOST_TRANSFERS,
    STREAMED_WEIGHTS,
    INDIVISIBLE_WORK,
    COPIED_WEIGHTS,
    OUTPUTS_PASSED_ON,
    LARGE_TENSORS,
    CHAIN,
    LINK_CUTS,
    PACKED_WINDOWS,
)
