"""Bounds by packing: chips are bins, and neither units nor copies of weights are divided.

If all units fit C chips within B seconds, then the images of `work / B` under a dual feasible
function sum up to at most C: a sum above C rules B out. So it is with the copies of weights that
the work of their users asks for, and the memory of chips.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Longs, LowerBound, PartitionProblem
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.problem.resident_sizes import weight_sizes

MOST_PARTS = 100
"""Largest k of the functions that are tried."""

MARGIN = 1e-9
"""Relative space for rounding where a size is taken as a multiple of another."""


@inner_njit
def image_sum(sizes: Floats, counts: Longs, room: float, k: int) -> float:
    """The sum of `u(k)(size / room)` over items, `counts[i]` of each size, rounded down safely."""
    total = 0.0
    for i in range(sizes.size):
        x = sizes[i] / room
        scaled = (k + 1) * x
        whole = np.floor(scaled)
        # Near a whole number either branch may be meant; the smaller image is safe.
        if scaled - whole <= MARGIN * (k + 1) or whole + 1 - scaled <= MARGIN * (k + 1):
            image = min(x, whole / k)
        else:
            image = whole / k
        total += counts[i] * image
    return total


@entry_njit
def too_many(sizes: Floats, counts: Longs, room: float, bins: float) -> int:
    """The first k whose function shows that items need more than this many bins, or 0."""
    for k in range(1, MOST_PARTS + 1):
        if image_sum(sizes, counts, room, k) > bins * (1.0 + MARGIN):
            return k
    return 0


@entry_njit
def fewest_bins(sizes: Floats, counts: Longs, room: float) -> int:
    """How many bins items need at least, by the best of the functions; at least one."""
    fewest = 1
    for k in range(1, MOST_PARTS + 1):
        total = image_sum(sizes, counts, room, k)
        fewest = max(fewest, int(np.ceil(total * (1.0 - MARGIN) - MARGIN)))
    return fewest


STEPS = 40
"""Halvings of the bisection."""

LEAST_GAIN = 1e-6
"""Relative gain over the known bound below which there is nothing to report."""

MOST_CLASSES = 20_000
"""Sizes that are distinguished; where there are more, they are rounded down to this many."""


def indivisible_work(problem: PartitionProblem, least_s: float) -> LowerBound:
    """The longest period that some dual feasible function rules out.

    A function that rules a period out rules out all shorter ones, too.

    Linear in the number of units: equal sizes are counted first, and what is too small for any
    of the functions is left out. So are clonable units; every chip counts as the fastest.

    Args:
        problem: the problem.
        least_s: a bound that is known already; shorter periods are not looked at.
    """
    work = problem.compute_s[~problem.clonable] / float(problem.chip_speed.max())
    work = work[work > 0.0]
    if not work.size or least_s <= 0.0:
        return LowerBound(0.0, "no unit")
    sizes, counts = _size_classes(work, least_s)
    if not sizes.size:
        return LowerBound(0.0, "units divide well enough")
    chips = problem.num_chips
    low, high = least_s * (1.0 + LEAST_GAIN), 2.0 * least_s
    parts = _ruled_out(sizes, counts, low, chips)
    if not parts:
        return LowerBound(0.0, "units divide well enough")
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        found = _ruled_out(sizes, counts, middle, chips)
        low, high, parts = (middle, high, found) if found else (low, middle, parts)
    return LowerBound(
        low,
        f"{count_text(work.size, 'unit')} that are not divided, on {chips} chips: "
        f"in {parts + 1}ths of a period they take more than all chips have",
    )


def _size_classes(work: Floats, period_s: float) -> tuple[Floats, Longs]:
    """Distinct sizes, ascending, and how many units have each."""
    sizes, counts = np.unique(work[work * (MOST_PARTS + 1) >= period_s], return_counts=True)
    if sizes.size > MOST_CLASSES:
        grain = 2.0 * period_s / MOST_CLASSES
        # Rounding down only helps.
        sizes, which = np.unique(np.floor(sizes / grain) * grain, return_inverse=True)
        counts = np.bincount(which, weights=counts)
    return sizes, counts.astype(np.int64)


def _ruled_out(sizes: Floats, counts: Longs, period_s: float, chips: int) -> int:
    """The first k whose function rules the period out, or 0."""
    if sizes[-1] > period_s * (1.0 + MARGIN):
        return 1
    return int(too_many(sizes, counts, period_s, chips))


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
