"""Checking the bounds of rings, with the arguments that hold on them alone; see `bound_checks`."""

from __future__ import annotations

from collections.abc import Callable

from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_passes.families.ring.exact.checks.ideal_check import IdealCheck
from mcm_passes.families.ring.exact.checks.packed_check import units_do_not_pack_in_order
from mcm_passes.mapping.bound_checks import bound_checks
from mcm_passes.mapping.bound_checks.bound_checks import MOST_UNITS
from mcm_passes.mapping.bound_checks.window_check import crosses_at_least, plain_windows

MOST_WINDOWS = 500_000
"""Windows that a check over order ideals may weigh."""


def verify_bound(problem: PartitionProblem, bound: LowerBound) -> bool:
    """Whether `bound` is shown to hold, by an argument that is carried out here again.

    The kind of argument is `bound.proof`. A bound of CP-SAT comes without a proof that could be
    followed; it is shown to hold if a simpler argument or the order ideals of the graph, where
    these are few, rule out every shorter period. False means "not shown", not "wrong".

    Args:
        problem: what was placed.
        bound: the claim; only its seconds and the name of its proof are looked at.
    """
    return bound_checks.verify_bound(problem, bound, _CHECKS)


def _link_cuts(problem: PartitionProblem, period_s: float) -> bool:
    if problem.num_units > MOST_UNITS:
        return False
    windows = plain_windows(problem, period_s)
    if windows is None:
        return True
    room = period_s * problem.limits.link_bytes_per_s
    links = range(problem.num_chips - 1)
    return any(crosses_at_least(problem, windows, link, room) for link in links)


def _ideals(problem: PartitionProblem, period_s: float) -> bool:
    if problem.num_units > MOST_UNITS:
        return False
    return IdealCheck(problem, MOST_WINDOWS).none_below(period_s) is True


_CHECKS = {
    **bound_checks.CHECKS,
    "windows": bound_checks.around_units,
    "link_cuts": _link_cuts,
    "packed_windows": units_do_not_pack_in_order,
    "ideals": _ideals,
}


def check_of(proof: str) -> Callable[[PartitionProblem, float], bool]:
    """The check of one kind of argument: whether it rules out a period.

    Raises:
        KeyError: for a kind that has none.
    """
    return _CHECKS[proof]


CHECKED_PROOFS = frozenset(_CHECKS)
"""Kinds of argument that are carried out again; a bound of any other kind needs one of these."""
