"""Checks of the bounds of rings, with the arguments that hold on them alone; see `bound_checks`.

For another machine, they are about the ring that all its placements fit.
"""

from __future__ import annotations

from collections.abc import Callable

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.families.ring.exact import packed_check
from mcm_passes.families.ring.exact.ideal_check import MOST_WINDOWS, IdealCheck
from mcm_passes.mapping.bound_checks import bound_checks
from mcm_passes.mapping.bound_checks.bound_checks import MOST_UNITS, Argument
from mcm_passes.mapping.bound_checks.window_check import crosses_at_least, plain_windows

Check = Callable[[PartitionProblem, float], bool | None]

FEW_WINDOWS = 100_000
"""Windows that are weighed where nobody claims that order ideals show a bound."""


def on_ring(check: Check) -> Check:
    """The same check, of the ring of a problem."""

    def of_its_ring(problem: PartitionProblem, period_s: float) -> bool | None:
        return check(problem if problem.on_ring else problem.reached(), period_s)

    return of_its_ring


def _link_cuts(problem: PartitionProblem, period_s: float) -> bool:
    if problem.num_units > MOST_UNITS:
        return False
    windows = plain_windows(problem, period_s)
    if windows is None:
        return True
    room = period_s * problem.limits.link_bytes_per_s
    links = range(problem.num_chips - 1)
    return any(crosses_at_least(problem, windows, link, room) for link in links)


def no_chain_is_faster(
    problem: PartitionProblem, period_s: float, most_windows: int = MOST_WINDOWS
) -> bool | None:
    """Order ideals, weighed up to a number of windows."""
    if problem.num_units > MOST_UNITS:
        return None
    return IdealCheck(problem, most_windows).none_below(period_s)


def _as_strong_as_a_solver(problem: PartitionProblem, period_s: float) -> bool | None:
    """A solver's bound: shown only where an argument that can be followed is as strong."""
    shown = any(checker.rules_out(problem, period_s) for checker in _QUICK_FIRST)
    return shown or no_chain_is_faster(problem, period_s, FEW_WINDOWS)


WINDOWS = Argument(
    "a unit has no device left", on_ring(bound_checks.around_units), MOST_UNITS, effort=1
)
LINK_CUTS = Argument("a channel must carry too much", on_ring(_link_cuts), MOST_UNITS, effort=2)
PACKED_WINDOWS = Argument(
    "units and weights do not pack in order",
    on_ring(packed_check.units_do_not_pack_in_order),
    packed_check.MOST_UNITS,
    effort=2,
)
IDEALS = Argument(
    "no chain of order ideals is faster",
    on_ring(no_chain_is_faster),
    effort=2,
    reason="there are too many order ideals to weigh again",
)
CPSAT = Argument(
    "the dual bound of CP-SAT",
    on_ring(_as_strong_as_a_solver),
    effort=2,
    reason="it is the solver's own bound, which comes without a proof to follow",
)

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
