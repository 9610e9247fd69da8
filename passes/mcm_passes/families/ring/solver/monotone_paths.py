"""Exact sampling along a linear extension, under the relay rule.

Along a fixed topological order, partitions without skipped chips that never step back are
monotone paths: the first node is on chip 0, and each next one on the same chip or the next. Forward
filtering and backward sampling draw from `p(f | f is such a monotone path)` without any search, in
O(n C) (Rabiner 1989, *A Tutorial on Hidden Markov Models*, section III A; monotone paths are
left-to-right models).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_passes.families.ring.solver.random_stream import uniform

Words = npt.NDArray[np.uint64]

_NEVER = -np.inf


@entry_njit
def sample_monotone_paths(log_p: Floats, count: int, streams: Words) -> Ints:
    """Independent draws from the distribution over monotone_paths.

    Args:
        log_p: `[n, C]`, logarithm of the weight of each chip for the node at each position; minus
            infinity where the chip is forbidden. Rows need not be normalised.
        count: draws.
        streams: `[count]`, states of random streams.

    Returns:
        `[count, n]`, chips by position; -1 throughout where no monotone path is possible.
    """
    n, chips = log_p.shape
    forward = _forward(log_p)
    drawn = np.empty((count, n), np.int32)
    for b in range(count):
        c = pick(forward[n - 1], chips, streams, b)
        if c < 0:
            drawn[b] = -1
            continue
        for i in range(n - 1, 0, -1):
            drawn[b, i] = c
            stay = forward[i - 1, c]
            step = forward[i - 1, c - 1] if c > 0 else _NEVER
            if stay == _NEVER:
                c -= 1
            elif step != _NEVER and uniform(streams, b) * (1.0 + np.exp(stay - step)) < 1.0:
                # Drawn by the weight of the step among both.
                c -= 1
        drawn[b, 0] = c
    return drawn


@entry_njit
def monotone_path_marginals(log_p: Floats) -> Floats:
    """Marginals of the distribution that `sample_monotone_paths` draws from (forward-backward).

    Args:
        log_p: as for `sample_monotone_paths`.

    Returns:
        `[n, C]`, logarithm of the probability that each position is on each chip; minus infinity
        throughout where no monotone path is possible.
    """
    n, chips = log_p.shape
    joint = _forward(log_p)
    backward = np.zeros(chips)
    for i in range(n - 1, -1, -1):
        if i < n - 1:
            for c in range(chips):
                # In place: the entry of the next chip is still that of the position after.
                stay = log_p[i + 1, c] + backward[c]
                step = _NEVER
                if c + 1 < chips:
                    step = log_p[i + 1, c + 1] + backward[c + 1]
                backward[c] = log_sum(stay, step)
        for c in range(chips):
            joint[i, c] += backward[c]
        total = log_total(joint[i])
        if total == _NEVER:
            continue
        for c in range(chips):
            joint[i, c] -= total
    return joint


@inner_njit
def log_sum(first: float, second: float) -> float:
    """The logarithm of the sum of two numbers given by theirs."""
    high, low = max(first, second), min(first, second)
    return high if low == _NEVER else high + np.log1p(np.exp(low - high))


@inner_njit
def log_total(row: Floats) -> float:
    """The logarithm of the sum of numbers given by theirs."""
    high = _NEVER
    for k in range(row.size):
        high = max(high, row[k])
    if high == _NEVER:
        return _NEVER
    total = 0.0
    for k in range(row.size):
        total += np.exp(row[k] - high)
    return high + np.log(total)


@inner_njit
def _forward(log_p: Floats) -> Floats:
    """`[n, C]`, log-weight of all monotone_paths that end at each position and chip."""
    n, chips = log_p.shape
    forward = np.full((n, chips), _NEVER)
    forward[0, 0] = log_p[0, 0]
    for i in range(1, n):
        for c in range(min(i + 1, chips)):
            total = log_sum(forward[i - 1, c], forward[i - 1, c - 1] if c > 0 else _NEVER)
            if total != _NEVER:
                forward[i, c] = total + log_p[i, c]
    return forward


@inner_njit
def pick(row: Floats, size: int, streams: Words, stream: int) -> int:
    """An index with probability proportional to `exp(row)`; -1 where all are minus infinity."""
    high = _NEVER
    for c in range(size):
        high = max(high, row[c])
    if high == _NEVER:
        return -1
    total = 0.0
    for c in range(size):
        total += np.exp(row[c] - high)
    point = uniform(streams, stream) * total
    last = -1
    for c in range(size):
        weight = np.exp(row[c] - high)
        if weight > 0.0:
            last = c
            point -= weight
            if point < 0.0:
                break
    return last


_LEAST = 1e-12
"""Probability below which a marginal is the rounding of a difference."""


@entry_njit
def sample_windowed(
    log_p: Floats, earliest: Longs, open_cuts: Bools, count: int, streams: Words
) -> tuple[Ints, Floats]:
    """Independent draws of monotone paths of fitting windows, and marginals of their distribution.

    Args:
        log_p: `[n, C]`, logarithm of the weight of each chip for the node at each position; minus
            infinity where the chip is forbidden. Rows need not be normalised.
        earliest: `[n + 1]`, for each cut the first cut that a window to it may start at, never
            falling; the cut itself where no window ends there.
        open_cuts: `[n + 1]`, whether chips may meet at each cut; those at both ends do not count.
        count: draws.
        streams: `[count]`, states of random streams.

    Returns:
        `[count, n]`, chips by position; -1 throughout where no such monotone path is possible. And
        `[n, C]`, logarithm of the probability that each position is on each chip; minus infinity
        where it is below 1e-12, and throughout where no such monotone path is possible.
    """
    sums, starts = _steps(log_p, earliest)
    forward = _windowed_forward(sums, starts, open_cuts)
    drawn = _drawn(sums, starts, forward, count, streams)
    return drawn, _marginals(sums, starts, forward, open_cuts)


@entry_njit
def fewest_windows(earliest: Longs, open_cuts: Bools) -> int:
    """The fewest windows that an order divides into; more than it has positions if it does not.

    Starts never fall, so that each window may as well begin at the first open cut that it can.

    Args:
        earliest: as for `sample_windowed`.
        open_cuts: likewise.
    """
    n = earliest.size - 1
    end, count = n, 0
    while end > 0:
        start = earliest[end]
        while start > 0 and start < end and not open_cuts[start]:
            start += 1
        if start >= end:
            return n + 1
        end = start
        count += 1
    return count


@inner_njit
def _steps(log_p: Floats, earliest: Longs) -> tuple[Floats, Longs]:
    """Running sums of `log_p`, and the first start of windows of each chip to each cut.

    Returns:
        `[n + 1, C]` sums, to which forbidden positions add nothing; `[n + 1, C]` starts, behind
        the last forbidden position.
    """
    n, chips = log_p.shape
    sums = np.zeros((n + 1, chips))
    starts = np.zeros((n + 1, chips), np.int64)
    for i in range(n):
        for c in range(chips):
            allowed = log_p[i, c] != _NEVER
            sums[i + 1, c] = sums[i, c] + (log_p[i, c] if allowed else 0.0)
            behind = starts[i, c] if allowed else i + 1
            starts[i + 1, c] = max(behind, earliest[i + 1])
    return sums, starts


@inner_njit
def _windowed_forward(sums: Floats, starts: Longs, open_cuts: Bools) -> Floats:
    """`[n + 1, C]`, log-weight of all monotone paths whose chip c ends at each cut.

    The sums of a window of cuts are kept in two halves: the older one as sums of all from each
    cut on, made once when it runs empty, the younger one as one sum.
    """
    rows, chips = sums.shape
    forward = np.full((rows, chips), _NEVER)
    for j in range(1, rows):
        if starts[j, 0] == 0 and (open_cuts[j] or j == rows - 1):
            forward[j, 0] = sums[j, 0]
    older = np.empty(rows)
    for c in range(1, chips):
        middle, younger = 0, _NEVER
        for j in range(1, rows):
            younger = log_sum(younger, forward[j - 1, c - 1] - sums[j - 1, c])
            first = starts[j, c]
            if first >= j:
                continue
            if first >= middle:
                running = _NEVER
                for i in range(j - 1, first - 1, -1):
                    running = log_sum(running, forward[i, c - 1] - sums[i, c])
                    older[i] = running
                middle, younger = j, _NEVER
            if open_cuts[j] or j == rows - 1:
                forward[j, c] = log_sum(float(older[first]), younger) + sums[j, c]
    return forward


@inner_njit
def _drawn(sums: Floats, starts: Longs, forward: Floats, count: int, streams: Words) -> Ints:
    """`[count, n]`, draws from the last cut to the first."""
    n, chips = sums.shape[0] - 1, sums.shape[1]
    drawn = np.full((count, n), -1, np.int32)
    weights = np.empty(n + 1)
    for b in range(count):
        c = pick(forward[n], chips, streams, b)
        if c < 0:
            continue
        end = n
        while c > 0:
            first = starts[end, c]
            for i in range(first, end):
                weights[i - first] = forward[i, c - 1] - sums[i, c]
            start = first + pick(weights, end - first, streams, b)
            drawn[b, start:end] = c
            end = start
            c -= 1
        drawn[b, :end] = 0
    return drawn


@inner_njit
def _marginals(sums: Floats, starts: Longs, forward: Floats, open_cuts: Bools) -> Floats:
    """`[n, C]`, logarithms of the marginals, by what precedes and what follows each chip."""
    n, chips = sums.shape[0] - 1, sums.shape[1]
    marginals = np.full((n, chips), _NEVER)
    total = _NEVER
    for c in range(chips):
        total = log_sum(total, forward[n, c])
    if total == _NEVER:
        return marginals
    # Of all that follows the end of chip c at each cut.
    after = np.full(n + 1, _NEVER)
    after[n] = 0.0
    for c in range(chips - 1, -1, -1):
        from_start = _from_starts(sums, starts, c, after)
        inside = 0.0
        for i in range(n):
            # So many chips c begin at or before position i, less those that end there.
            if c == 0:
                begins = 1.0 if i == 0 else 0.0
            else:
                begins = np.exp(forward[i, c - 1] + from_start[i] - total)
            ends = np.exp(forward[i, c] + after[i] - total) if i > 0 else 0.0
            inside += begins - ends
            if inside > _LEAST:
                marginals[i, c] = np.log(min(inside, 1.0))
        for i in range(n):
            after[i] = from_start[i] if open_cuts[i] else _NEVER
        # A chip that ends at the last cut is the last one, whichever it is.
        after[0], after[n] = _NEVER, 0.0
    return marginals


@inner_njit
def _from_starts(sums: Floats, starts: Longs, c: int, after: Floats) -> Floats:
    """`[n + 1]`, log-weight of all that follows where chip c starts at each cut.

    Args:
        sums: from `_steps`.
        starts: likewise.
        c: the chip.
        after: `[n + 1]`, log-weight of all that follows its end.
    """
    rows = after.size
    found = np.full(rows, _NEVER)
    older = np.empty(rows)
    # Ends from `last` down to i + 1, the mirror image of `_windowed_forward`.
    last, middle, younger = rows - 1, rows, _NEVER
    for i in range(rows - 2, -1, -1):
        younger = log_sum(younger, after[i + 1] + sums[i + 1, c])
        while last > i and starts[last, c] > i:
            last -= 1
        if last <= i:
            continue
        if last < middle:
            running = _NEVER
            for j in range(i + 1, last + 1):
                running = log_sum(running, after[j] + sums[j, c])
                older[j] = running
            middle, younger = i + 1, _NEVER
        found[i] = log_sum(float(older[last]), younger) - sums[i, c]
    return found
