"""A bound from what heavy units next to each other have to pass on (our derivation).

The parts of an op that was sharded are all heavy, and one op joins their outputs. Where no two of
them fit on a chip, each has a chip of its own, and the last of these passes the outputs of all
others on to the op that joins them, or runs that op too.
"""

from __future__ import annotations

import math

import numpy as np

from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import seconds_text


def outputs_passed_on(problem: PartitionProblem) -> LowerBound:
    """The longest time that a chip among the producers of one unit must be busy for.

    Let units u1 to uk, by falling work w, be read by unit s, and let r(u) be what relays of all
    that s reads from u take. Below a period of w(uk-1) + w(uk) no chip holds two of them. Let u be
    the one on the last of their chips. All others are on chips before it and s is not, so that
    either s is on u's chip, or that chip relays whatever s reads from the others:

        period >= min(w(uk-1) + w(uk), min over u of w(u) + min(w(s), sum of the others' r))

    Holds where engines relay; every chip counts as the fastest. Clonable units do not count.
    Takes O(E log E).
    """
    best, where, count = 0.0, -1, 0
    if problem.relays:
        work_s: list[float] = problem.compute_s.tolist()
        for s, relays in _read_by(problem).items():
            seconds, parts = _longest(work_s, s, relays)
            if seconds > best:
                best, where, count = seconds, s, parts
    if where < 0:
        return LowerBound(0.0, "no unit reads from two others")
    # Rounded down by a little: the fast model adds the same numbers in another order.
    seconds = best / float(problem.chip_speed.max()) * (1.0 - 1e-12)
    return LowerBound(
        seconds,
        f"{count} units that unit {quote(problem.names[where])} reads from do not fit on a chip in "
        f"twos, and the last of their chips passes on what the others made "
        f"({seconds_text(seconds)})",
    )


def _read_by(problem: PartitionProblem) -> dict[int, dict[int, float]]:
    """For each unit that reads from two others or more, relay seconds of what it reads of each."""
    read: dict[int, dict[int, float]] = {}
    rows = np.repeat(np.arange(len(problem.tensor_names)), np.diff(problem.tensor_ptr))
    producer = problem.tensor_producer[rows]
    counts = (producer >= 0) & ~problem.clonable[np.maximum(producer, 0)]
    counts &= problem.compute_s[np.maximum(producer, 0)] > 0.0
    edges = zip(
        producer[counts].tolist(),
        problem.tensor_consumers[counts].tolist(),
        problem.relay_s[rows[counts]].tolist(),
        strict=True,
    )
    for u, v, seconds in edges:
        into = read.setdefault(v, {})
        into[u] = into.get(u, 0.0) + seconds
    return {v: into for v, into in read.items() if len(into) > 1 and not problem.clonable[v]}


def _longest(work_s: list[float], s: int, relays: dict[int, float]) -> tuple[float, int]:
    """The bound that unit s gives, in seconds of the fastest chip, and how many units it takes.

    Args:
        work_s: seconds of each unit.
        s: the unit.
        relays: relay seconds of what it reads of each unit.
    """
    joined_s = work_s[s]
    units = sorted(relays, key=lambda u: (-work_s[u], u))
    work = [work_s[u] for u in units]
    best, count = 0.0, 0
    total, least, least_alone = 0.0, math.inf, math.inf
    for k, (u, own) in enumerate(zip(units, work, strict=True), start=1):
        total += relays[u]
        # min(w(u) + w(s), w(u) - r(u) + sum of all r): the latter differs in the sum alone.
        least, least_alone = min(least, own + joined_s), min(least_alone, own - relays[u])
        if k > 1:
            seconds = min(work[k - 2] + own, least, least_alone + total)
            if seconds > best:
                best, count = seconds, k
    return best, count
