"""An independent check of bounds from dual feasible functions, in exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.mapping.bound_checks.plain_need import plain_weights
from mcm_passes.mapping.bounds.dual_feasible import MOST_PARTS


def units_do_not_pack(problem: PartitionProblem, period_s: float) -> bool:
    """Whether a dual feasible function rules out that all units fit into the period.

    The sum of `u(k)` over the units' shares of a period would be at most the number of chips if
    they did (Fekete and Schepers 2001, theorem 5).
    """
    if period_s <= 0.0:
        return True
    fixed = problem.compute_s[~problem.clonable].tolist()
    return _fewest(_shares(fixed, _room(problem, period_s))) > problem.num_chips


def copies_do_not_fit(problem: PartitionProblem, period_s: float) -> bool:
    """Whether the weights that several chips need within the period exceed all memory."""
    if period_s <= 0.0:
        return True
    limits, room = problem.limits, _room(problem, period_s)
    if problem.streams:
        return False
    copies: Counter[int] = Counter()
    for weight in plain_weights(problem):
        users, size = np.array(weight.users, np.int64), weight.room
        if users.size and size:
            fixed = problem.compute_s[users[~problem.clonable[users]]].tolist()
            alone = Fraction(math.fsum(fixed)) <= room
            fewest = Fraction(1) if alone else _fewest(_shares(fixed, room))
            copies[size] += problem.num_chips + 1 if fewest == math.inf else math.ceil(fewest)
    if sum(size * count for size, count in copies.items()) > sum(limits.sram_bytes):
        return True
    of_chip = {Fraction(size, max(limits.sram_bytes)): count for size, count in copies.items()}
    return _fewest(of_chip) > problem.num_chips


def _room(problem: PartitionProblem, period_s: float) -> Fraction:
    """Seconds of work, at speed 1, that a chip does within a period."""
    return Fraction(period_s) * Fraction(float(np.max(problem.chip_speed)))


def _shares(sizes: list[float], room: Fraction) -> dict[Fraction, int]:
    return {Fraction(size) / room: count for size, count in Counter(sizes).items()}


def _fewest(shares: Mapping[Fraction, int]) -> Fraction | float:
    """Bins that items need at least, which may be a fraction; infinite where one has no room."""
    if any(share > 1 for share in shares):
        return math.inf
    best = Fraction(0)
    for k in range(1, MOST_PARTS + 1):
        total = Fraction(0)
        for share, count in shares.items():
            scaled = (k + 1) * share
            whole = scaled.numerator // scaled.denominator
            total += count * (share if whole == scaled else Fraction(whole, k))
        best = max(best, total)
    return best
