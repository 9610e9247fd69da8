"""The checks of `certificates.py` as components that `mcmc check` finds by the kind of proof."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.families.ring.exact import certificates
from mcm_passes.families.ring.exact.checks.ideal_check import IdealCheck
from mcm_passes.families.ring.exact.checks.packed_check import MOST_UNITS as MOST_PACKED_UNITS
from mcm_passes.mapping.bound_checks import bound_checks

SOLVERS_WORD = "it is taken from the solver's word, which comes without a proof to follow"


@dataclass(frozen=True)
class IdealArgument:
    """Order ideals, weighed up to a number of windows.

    Attributes:
        most_windows: how many; plain Python weighs 30,000 to 250,000 a second.
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
class SolverArgument:
    """A solver's word: shown only where an argument that can be followed is as strong."""

    summary: str = "the dual bound of CP-SAT"
    undecided: str = SOLVERS_WORD
    effort: int = 2

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`; never False, since a weaker argument contradicts nothing."""
        shown = any(checker.rules_out(problem, period_s) for checker in _QUICK_FIRST)
        return shown or _FEW_IDEALS.rules_out(problem, period_s)


@dataclass(frozen=True)
class OnRing:
    """An argument about rings; for another machine, about the ring that all its placements fit.

    Attributes:
        argument: the argument.
    """

    argument: bound_checks.Argument | IdealArgument | SolverArgument

    @property
    def summary(self) -> str:
        """See `ProofChecker`."""
        return self.argument.summary

    @property
    def undecided(self) -> str:
        """See `ProofChecker`."""
        return self.argument.undecided

    @property
    def effort(self) -> int:
        """See `ProofChecker`."""
        return self.argument.effort

    def rules_out(self, problem: PartitionProblem, period_s: float) -> bool | None:
        """See `ProofChecker`."""
        ring = problem if problem.machine is None else problem.reached()
        return self.argument.rules_out(ring, period_s)


WINDOWS = OnRing(
    bound_checks.Argument(
        "a unit has no device left",
        certificates.check_of("windows"),
        certificates.MOST_UNITS,
        effort=1,
    )
)
LINK_CUTS = OnRing(
    bound_checks.Argument(
        "a channel must carry too much",
        certificates.check_of("link_cuts"),
        certificates.MOST_UNITS,
        effort=2,
    )
)
PACKED_WINDOWS = OnRing(
    bound_checks.Argument(
        "units and weights do not pack in order",
        certificates.check_of("packed_windows"),
        MOST_PACKED_UNITS,
        effort=2,
    )
)
IDEALS = OnRing(IdealArgument())
_FEW_IDEALS = IdealArgument(most_windows=100_000)
"""Where nobody says that this argument holds."""
CPSAT = OnRing(SolverArgument())

_QUICK_FIRST = (
    bound_checks.TOTAL_WORK,
    bound_checks.HEAVIEST_UNIT,
    bound_checks.HOST_TRANSFERS,
    bound_checks.STREAMED_WEIGHTS,
    bound_checks.INDIVISIBLE_WORK,
    bound_checks.COPIED_WEIGHTS,
    bound_checks.OUTPUTS_PASSED_ON,
    bound_checks.LARGE_TENSORS,
    bound_checks.CHAIN,
    LINK_CUTS,
    PACKED_WINDOWS,
)
