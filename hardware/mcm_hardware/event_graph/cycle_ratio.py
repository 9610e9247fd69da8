"""The maximum cycle ratio of an event graph: the period of the machine that it describes.

Baccelli et al. 1992, theorem 2.28 and section 3.7: in the long run the activities of a strongly
connected timed event graph start every `max over cycles of (seconds / lag)`.

How fast a program runs, in compiled code: what single and batch evaluators have in common.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Longs
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.max_plus import (
    busy_per_resource,
    end_of_inference,
    start_times,
    starts_of_a_round,
)
from mcm_hardware.event_graph.service_order import Waits

_RESOURCE, _NONE = -1, -2
"""Choices of a policy other than a wait: the resource, or nothing."""

_EXACT = 2.0**53
"""Floats below are integers without gaps, so that their sums are exact."""

_HEADROOM = 2.0**4
"""How much later than in the first inference an activity may start in the values of a policy."""

_COARSER = 2.0**6
"""Factor between the grids that are tried."""

_SWEEPS = 100
"""Most sweeps on one grid. At most 7 were seen, on random graphs of up to 100,000 activities."""

_GRIDS = 6
"""Grids that are tried; a coarser one is needed only where values outgrow the one before."""


@entry_njit
def maximum_cycle_ratio(graph: EventGraph, busy_s: Floats) -> tuple[float, int]:
    """The greatest seconds per inference of any cycle, and an activity on such a cycle.

    Howard's policy iteration (Cochet-Terrasson, Cohen, Gaubert, McGettrick and Quadrat 1998,
    *Numerical computation of spectral elements in max-plus algebra*). The form is that of Dasdan
    2004 (*Experimental analysis of the fastest optimum cycle ratio and mean algorithms*).
    Improvements are applied at once in the static order, so that one sweep settles an inference.

    Sums of thousands of times are off by more than the differences between cycles, and policies
    that compare them change without end. So all times are first rounded to a grid on which sums
    are exact. The iteration ends when no value can rise: a proof, without tolerance, that no cycle
    of the rounded graph has a greater ratio than the one that is found.

    Args:
        graph: one that does not deadlock. All its cycles have a lag.
        busy_s: `[num_resources]`, from `busy_per_resource`; all that a resource serves is a cycle
            of lag 1.

    Returns:
        The ratio, never less than the greatest of `busy_s`; and an activity on a cycle that
        attains it. The ratio is computed from times that are not rounded. Another cycle of n
        activities can exceed it by n / 2 steps of the grid and one more, which are `2**-49` of the
        latency and the longest wait for earlier inferences.
    """
    latest = 0.0
    for time in starts_of_a_round(graph):
        latest = max(latest, float(time))
    ratio, critical = 0.0, 0
    for a in range(len(graph.busy_s)):
        if busy_s[graph.resource[a]] > ratio:
            ratio, critical = float(busy_s[graph.resource[a]]), a
    lags = 1
    for w in range(graph.wait_ptr[-1]):
        lags = max(lags, int(graph.waits.lag[w]))
    step = _HEADROOM * (latest + ratio * (lags + 1)) / _EXACT
    for _ in range(_GRIDS):
        settled, ratio, critical = _iterate(graph, _on_grid(graph, step), lags, ratio, critical)
        if settled:
            return ratio, critical
        step *= _COARSER
    raise ArithmeticError("the cycle ratio did not settle on any grid")


@inner_njit
def _on_grid(graph: EventGraph, step: float) -> EventGraph:
    """The graph with times in steps, rounded to whole numbers."""
    return with_times(graph, np.round(graph.busy_s / step), np.round(graph.waits.seconds / step))


@inner_njit
def with_times(graph: EventGraph, busy_s: Floats, seconds: Floats) -> EventGraph:
    """The graph with other times of activities and waits."""
    waits = graph.waits
    return EventGraph(
        graph.num_resources,
        graph.resource,
        busy_s,
        graph.latency_s,
        graph.hop_ptr,
        graph.wait_ptr,
        Waits(waits.source, seconds, waits.lag, waits.for_buffer),
        graph.order,
        graph.before,
        graph.before_lag,
        graph.turn,
        graph.finals,
        graph.shift,
    )


@inner_njit
def _iterate(
    graph: EventGraph, grid: EventGraph, lags: int, ratio: float, critical: int
) -> tuple[bool, float, int]:
    """Howard's iteration.

    Args:
        graph: the graph.
        grid: the same with times in whole numbers.
        lags: the greatest lag.
        ratio: seconds, of a cycle that is known.
        critical: an activity on it.

    Returns:
        Whether it ended, with all sums exact; and the greatest ratio, in seconds, and an activity
        on its cycle.
    """
    value = starts_of_a_round(grid)
    policy = np.full(len(value), _NONE, np.int64)
    least = 0.0
    for busy in busy_per_resource(grid):
        least = max(least, float(busy))
    for _ in range(_SWEEPS):
        if not improve(grid, least, value, policy, 0.0)[0]:
            greatest = max(least * lags, float(np.abs(value).max()))
            return greatest <= _EXACT / 2.0, ratio, critical
        least, slowest = _raised(grid, least, policy)
        _evaluate(grid, least, value, policy)
        if slowest >= 0:
            total, lags = _around(graph, policy, slowest)
            if total / lags > ratio:
                ratio, critical = total / lags, slowest
    return False, ratio, critical


@entry_njit
def improve(
    graph: EventGraph, ratio: float, value: Floats, policy: Longs, tolerance: float
) -> tuple[bool, bool]:
    """Lets each activity wait for what makes it latest.

    Args:
        graph: the graph.
        ratio: seconds that each lag takes off.
        value: `[A]`, raised where a wait is over later.
        policy: `[A]`, what each activity waits for; written where `value` is.
        tolerance: seconds by which a wait has to be over later to count.

    Returns:
        Whether any value changed, and whether any choice did.
    """
    waits = graph.waits
    changed, switched = False, False
    for a in graph.order:
        before = graph.before[a]
        latest = value[before] + graph.busy_s[before] - ratio * graph.before_lag[a]
        choice = _RESOURCE
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            time = value[waits.source[w]] + waits.seconds[w] - ratio * waits.lag[w]
            if time > latest:
                latest, choice = time, w
        if latest > value[a] + tolerance:
            switched = switched or policy[a] != choice
            value[a], policy[a] = latest, choice
            changed = True
    return changed, switched


@inner_njit
def _raised(graph: EventGraph, ratio: float, policy: Longs) -> tuple[float, int]:
    """The greatest ratio of the policy's cycles, rounded up to a whole number.

    Returns:
        It and an activity on the cycle, or `ratio` and -1 if none is greater.
    """
    # 0: not seen; n: on the n-th walk.
    seen = np.zeros(len(policy), np.int64)
    slowest = -1
    for root in range(len(policy)):
        a = root
        while seen[a] == 0 and policy[a] != _NONE:
            seen[a] = root + 1
            a = _arc(graph, policy, a)[0]
        if seen[a] == root + 1 and policy[a] != _NONE:
            total, lags = _around(graph, policy, a)
            if total > ratio * lags:
                slowest, ratio = a, float(total // lags)
                if total > ratio * lags:
                    ratio += 1.0
    return ratio, slowest


@inner_njit
def _evaluate(graph: EventGraph, ratio: float, value: Floats, policy: Longs) -> None:
    """Sets the values by the policy, without its cycles of a lesser ratio."""
    path = np.empty(len(policy), np.int64)
    # 0: not seen; n: on the n-th walk, or settled by an earlier one.
    seen = np.zeros(len(policy), np.int64)
    for root in range(len(policy)):
        if seen[root] > 0:
            continue
        a = root
        length = 0
        while seen[a] == 0 and policy[a] != _NONE:
            seen[a] = root + 1
            path[length] = a
            length += 1
            a = _arc(graph, policy, a)[0]
        if seen[a] == root + 1:
            total, lags = _around(graph, policy, a)
            if total <= (ratio - 1.0) * lags:
                policy[a] = _NONE
        seen[a] = root + 1
        for i in range(length - 1, -1, -1):
            b = path[i]
            if b != a:
                source, seconds, lag = _arc(graph, policy, b)
                value[b] = value[source] + seconds - ratio * lag


@inner_njit
def _arc(graph: EventGraph, policy: Longs, a: int) -> tuple[int, float, int]:
    """Source, seconds and lag of the wait that the policy chose for `a`."""
    w = policy[a]
    if w == _RESOURCE:
        before = graph.before[a]
        return int(before), float(graph.busy_s[before]), int(graph.before_lag[a])
    return int(graph.waits.source[w]), float(graph.waits.seconds[w]), int(graph.waits.lag[w])


@inner_njit
def _around(graph: EventGraph, policy: Longs, a: int) -> tuple[float, int]:
    """Seconds and lags of the policy's cycle through `a`."""
    total, lags = 0.0, 0
    b = a
    while True:
        b, seconds, lag = _arc(graph, policy, b)
        total += seconds
        lags += lag
        if b == a:
            return total, lags


class Performance(NamedTuple):
    """How fast a program runs.

    Attributes:
        runs: whether it does; otherwise it deadlocks, and times are infinite.
        period_s: seconds between inferences in steady state.
        latency_s: from the start of the first inference to its last output.
        busy_s: `[L + D]`, time of each resource per inference, as numbered by `ChannelArrays`.
        critical: an activity on a cycle that sets the period, or -1.
    """

    runs: bool
    period_s: float
    latency_s: float
    busy_s: Floats
    critical: int


@entry_njit
def performance(graph: EventGraph) -> Performance:
    """How fast an event graph runs."""
    busy = busy_per_resource(graph)
    if len(graph.order) < len(graph.busy_s):
        return Performance(False, np.inf, np.inf, busy, -1)
    latency = end_of_inference(graph, start_times(graph, 1)[0])
    period, critical = maximum_cycle_ratio(graph, busy)
    return Performance(True, period, latency, busy, critical)
