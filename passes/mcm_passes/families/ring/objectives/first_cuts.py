"""What searches for objectives begin with: cuts of orders on every number of chips."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods
from mcm_passes.families.ring.contiguous.all_partitions import tried_partitions
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.order_encoding.incumbent import Incumbent
from mcm_passes.mapping.solving.solve import with_chips

LEAST_CHIPS = 8
"""Numbers of chips that all are tried with first cuts; beyond, each is half as much again."""


def offer_first_cuts(
    known: Incumbent, problem: PartitionProblem, rng: np.random.Generator, budget: Budget
) -> str:
    """Offers what `dp` finds on every number of chips; why it finds nothing on all of them."""
    reason = ""
    useful = min(problem.num_chips, int((~problem.clonable).sum()))
    chips = 1
    while chips <= useful and not known.must_stop():
        part = with_chips(problem, chips)
        found = ContiguousDp().solve(part, FastPeriods(part), rng, Budget(monitor=budget.monitor))
        reason = found.reason
        if found.chip_of is not None:
            known.offer(found.chip_of)
        following = chips + 1 if chips < LEAST_CHIPS else chips + chips // 2
        chips = useful if chips < useful < following else following
    for chip_of in tried_partitions(problem):
        known.offer(chip_of)
    return reason
