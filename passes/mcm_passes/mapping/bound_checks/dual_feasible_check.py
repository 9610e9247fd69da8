"""An independent check of bounds from dual feasible functions, in whole numbers.

Seconds are multiples of a common power of two, so that nothing is rounded.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.bound_checks.plain_need import plain_weights
from mcm_passes.mapping.bounds.dual_feasible import MOST_PARTS


def units_do_not_pack(problem: PartitionProblem, period_s: float) -> bool:
    """Ask whether a dual feasible function rules out that all units fit into the period.

    The sum of `u(k)` over the units' shares of a period would be at most the number of chips if
    they did (Fekete and Schepers 2001, theorem 5).
    """
    if period_s <= 0.0:
        return True
    fixed = problem.compute_s[~problem.clonable].tolist()
    bins = problem.num_chips
    return _fewest(*_multiples(fixed, _room(problem, period_s)), at_least=bins) > bins


def copies_do_not_fit(problem: PartitionProblem, period_s: float) -> bool:
    """Ask whether the weights that several chips need within the period exceed all memory."""
    if period_s <= 0.0:
        return True
    limits, room, bins = problem.limits, _room(problem, period_s), problem.num_chips
    if problem.streams:
        return False
    copies: Counter[int] = Counter()
    seconds, clonable = problem.compute_s.tolist(), problem.clonable.tolist()
    for weight in plain_weights(problem):
        if not (weight.users and weight.room):
            continue
        fixed = [seconds[u] for u in weight.users if not clonable[u]]
        fewest = 1
        if math.fsum(fixed) > room:
            needed = _fewest(*_multiples(fixed, room), at_least=1)
            fewest = bins + 1 if needed == math.inf else math.ceil(needed)
        copies[weight.room] += fewest
    if sum(size * count for size, count in copies.items()) > sum(limits.sram_bytes):
        return True
    return _fewest(copies, max(limits.sram_bytes), at_least=bins) > bins


def _room(problem: PartitionProblem, period_s: float) -> Fraction:
    """Seconds of work, at speed 1, that a chip does within a period."""
    return Fraction(period_s) * Fraction(float(np.max(problem.chip_speed)))


def _multiples(sizes: list[float], room: Fraction) -> tuple[Counter[int], int]:
    """Items of each size and the size of a bin, as multiples of one unit."""
    ratios = [size.as_integer_ratio() for size in sizes]
    unit = math.lcm(room.denominator, *{below for _, below in ratios})
    counts = Counter(above * (unit // below) for above, below in ratios)
    return counts, room.numerator * (unit // room.denominator)


def _fewest(counts: Counter[int], room: int, at_least: int) -> Fraction | float:
    """Bins that items need at least, which may be a fraction; infinite where one exceeds a bin.

    Args:
        counts: how many items there are of each size.
        room: size of a bin.
        at_least: bins below which the number does not matter.
    """
    if max(counts, default=0) > room:
        return math.inf
    # The images of smaller items are 0.
    large = [(size, count) for size, count in counts.items() if size * (MOST_PARTS + 1) >= room]
    together = sum(size * count for size, count in large)
    best = Fraction(at_least)
    for k in range(1, MOST_PARTS + 1):
        if together * (k + 1) <= best * k * room:
            break  # images are at most (k + 1) / k times the shares, here and for larger k
        whole = exact = 0
        for size, count in large:
            parts, rest = divmod((k + 1) * size, room)
            if rest:
                whole += count * parts
            else:
                exact += count * size
        best = max(best, Fraction(whole, k) + Fraction(exact, room))
    return best
