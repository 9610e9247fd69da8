"""A bound from memory: weights that several chips must hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcm_compiler.contracts.partition import Floats, Longs, LowerBound, PartitionProblem
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.bounds.indivisible_work import fewest_bins, too_many
from mcm_passes.mapping.problem.resident_sizes import weight_sizes

HALVINGS = 60
"""Halvings; more than the bits of a float."""


def longest_too_short(
    too_short: Callable[[float], bool], low: float, high: float, grain: float = 0.0
) -> float:
    """The largest period found between `low` and `high` that is too short; 0 if `low` is not.

    Ends where `low` and `high` are within `grain` of each other, and after `HALVINGS`.
    """
    if low <= 0.0 or not too_short(low):
        return 0.0
    for _ in range(HALVINGS):
        if high - low <= grain * high:
            break
        middle = 0.5 * (low + high)
        if too_short(middle):
            low = middle
        else:
            high = middle
    return low


GRAIN = 1e-12
"""Relative width at which the bisection stops."""

LEAST_GAIN = 1e-6
"""Relative gain over the known bound below which there is nothing to report."""

_Sizes = tuple[Floats, Longs]
"""Distinct sizes, and how many items have each."""


def copied_weights(problem: PartitionProblem, least_s: float) -> LowerBound:
    """The longest period in which the copies of weights exceed all memory (our derivation).

    The users of a weight need this many chips that their work fits within the period, and each of
    these chips holds the weight. The shorter the period, the more copies there are: of a
    recurrence's weights, which all steps read, at least the work of all steps over the period.
    The copies of all weights are to fit the chips: their sum into all memory, and, as one copy is
    not divided, their images under a dual feasible function into the number of chips.

    Clonable units are left out, and every chip counts as the fastest. Says nothing where weights
    may be streamed.

    Args:
        problem: the problem.
        least_s: a bound that is known already; shorter periods are not looked at.
    """
    room, nothing = max(problem.limits.sram_bytes), LowerBound(0.0, "no weight has to be copied")
    if problem.streams or least_s <= 0.0:
        return nothing
    users = {w: _work_of_users(problem, w) for w in _beyond_one_chip(problem, least_s).tolist()}
    if not users:
        return nothing
    sizes, size_of = np.unique(weight_sizes(problem), return_inverse=True)
    once = (np.diff(problem.weight_ptr) > 0).astype(np.int64)

    def copies_of(period_s: float) -> Longs:
        copies = once.copy()
        for w, work in users.items():
            copies[w] = fewest_bins(*work, period_s)
        return copies

    def too_short(period_s: float) -> bool:
        counts = np.bincount(size_of, weights=copies_of(period_s)).astype(np.int64)
        if int((sizes * counts).sum()) > sum(problem.limits.sram_bytes):
            return True
        return bool(too_many(sizes.astype(np.float64), counts, float(room), problem.num_chips))

    start_s = least_s * (1.0 + LEAST_GAIN)
    all_s = float(problem.compute_s.sum()) / float(problem.chip_speed.max())
    most_s = 2.0 * max(start_s, all_s)
    if too_short(most_s):
        # Not even one copy of each fits, which other arguments tell.
        return nothing
    found_s = longest_too_short(too_short, start_s, most_s, GRAIN)
    if not found_s:
        return nothing
    copies = copies_of(found_s)
    several = count_text(int((copies > 1).sum()), "weight")
    needed = bytes_text(int((sizes[size_of] * copies).sum()))
    chips = count_text(problem.num_chips, "chip")
    return LowerBound(
        found_s,
        f"below it {several} must be on more than one chip, and all copies, {needed}, do not fit "
        f"{chips} of {bytes_text(room)}",
    )


def _beyond_one_chip(problem: PartitionProblem, period_s: float) -> Longs:
    """Weights whose users are too much work for one chip within a period."""
    rows = np.repeat(np.arange(problem.weight_bytes.size), np.diff(problem.weight_ptr))
    work = np.where(problem.clonable, 0.0, problem.compute_s)[problem.weight_users]
    total = np.bincount(rows, weights=work, minlength=problem.weight_bytes.size)
    heavy = total / float(problem.chip_speed.max()) > period_s
    return np.flatnonzero(heavy & (problem.weight_bytes > 0))


def _work_of_users(problem: PartitionProblem, weight: int) -> _Sizes:
    """Seconds of a weight's users on the fastest chip."""
    users = problem.weight_users[problem.weight_ptr[weight] : problem.weight_ptr[weight + 1]]
    work = problem.compute_s[users[~problem.clonable[users]]] / float(problem.chip_speed.max())
    sizes, counts = np.unique(work[work > 0.0], return_counts=True)
    return sizes, counts.astype(np.int64)
