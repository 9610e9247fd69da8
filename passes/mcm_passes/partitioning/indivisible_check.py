"""The argument of `indivisible_work` once more, in exact arithmetic."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from mcm_compiler.partition import PartitionProblem
from mcm_passes.partitioning.indivisible_work import MOST_PARTS


def units_do_not_pack(problem: PartitionProblem, period_s: float) -> bool:
    """Whether a dual feasible function rules out that all units fit into the period.

    The sum of `u(k)` over the units' shares of a period would be at most the number of chips if
    they did (Fekete and Schepers 2001, theorem 5).
    """
    if period_s <= 0.0:
        return True
    fastest = Fraction(float(problem.chip_speed.max()))
    period = Fraction(period_s) * fastest
    fixed = problem.compute_s[~problem.clonable].tolist()
    counts = {Fraction(size) / period: count for size, count in Counter(fixed).items()}
    if any(share > 1 for share in counts):
        return True
    for k in range(1, MOST_PARTS + 1):
        total = Fraction(0)
        for share, count in counts.items():
            scaled = (k + 1) * share
            whole = scaled.numerator // scaled.denominator
            total += count * (share if whole == scaled else Fraction(whole, k))
        if total > problem.num_chips:
            return True
    return False
