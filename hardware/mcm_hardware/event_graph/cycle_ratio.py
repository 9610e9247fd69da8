"""The maximum cycle ratio of an event graph: the period of the machine that it describes.

Baccelli et al. 1992, theorem 2.28 and section 3.7: in the long run the activities of a strongly
connected timed event graph start every `max over cycles of (seconds / lag)`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.max_plus import start_times

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_RESOURCE, _NONE = -1, -2
"""What the policy says besides a wait: that for the resource, or none."""

_ROUNDING = 1e-14

_STALE_SWEEPS = 16
"""Sweeps in a row without another policy or ratio, after which values only chase rounding errors.

In exact numbers one is enough: the values are those of the policy already.
"""


@entry_njit
def maximum_cycle_ratio(graph: EventGraph, busy_s: Floats) -> tuple[float, int]:
    """The greatest seconds per inference of any cycle, and an activity on such a cycle.

    Howard's policy iteration (Cochet-Terrasson, Cohen, Gaubert, McGettrick and Quadrat 1998,
    *Numerical computation of spectral elements in max-plus algebra*), in the form of Dasdan 2004
    (*Experimental analysis of the fastest optimum cycle ratio and mean algorithms*), with
    improvements taken over at once in the static order, so that one sweep settles an inference.

    The answer is the ratio of a cycle, and when the iteration ends, the values of all activities
    prove that no other is greater: along every arc, the value grows by at least
    `seconds - ratio * lag`, up to rounding, and around a cycle it grows by 0.

    Args:
        graph: one that does not deadlock. All its cycles have a lag.
        busy_s: `[num_resources]`, from `busy_per_resource`; all that a resource serves is a cycle
            of lag 1.

    Returns:
        The ratio, never less than the greatest of `busy_s`; and an activity on a cycle that
        attains it.
    """
    activities = len(graph.busy_s)
    value = start_times(graph, 1)[0]
    policy = np.full(activities, _NONE, np.int64)
    ratio, critical = 0.0, 0
    for a in range(activities):
        if busy_s[graph.resource[a]] > ratio:
            ratio, critical = float(busy_s[graph.resource[a]]), a
    rounding = _ROUNDING
    sweeps, stale = 0, 0
    while True:
        latest = 0.0
        for a in range(activities):
            latest = max(latest, float(value[a]))
        tolerance = rounding * (ratio + latest)
        changed, switched = improve(graph, ratio, value, policy, tolerance)
        if not changed:
            return ratio, critical
        ratio, slowest = _evaluate(graph, ratio, value, policy)
        if slowest >= 0:
            critical = slowest
        sweeps += 1
        stale = 0 if switched or slowest >= 0 else stale + 1
        if stale == _STALE_SWEEPS or sweeps % (activities + 100) == 0:
            # Rounding errors chase each other around a cycle.
            rounding *= 10.0
            stale = 0


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
def _evaluate(graph: EventGraph, ratio: float, value: Floats, policy: Longs) -> tuple[float, int]:
    """Raises the ratio to that of the policy's slowest cycle, and sets the values by it.

    Returns:
        The ratio, and an activity on the cycle that raised it or -1.
    """
    activities = len(policy)
    path = np.empty(activities, np.int64)
    # 0: not seen; n: on the n-th walk, or settled by an earlier one.
    seen = np.zeros(activities, np.int64)
    walk = 0
    slowest = -1
    for root in range(activities):
        if seen[root] > 0:
            continue
        walk += 1
        a = root
        while seen[a] == 0 and policy[a] != _NONE:
            seen[a] = walk
            a = _arc(graph, policy, a)[0]
        if seen[a] == walk and policy[a] != _NONE:
            around = _cycle_ratio(graph, policy, a)
            if around > ratio:
                ratio, slowest = around, a
    seen[:] = 0
    walk = 0
    for root in range(activities):
        if seen[root] > 0:
            continue
        walk += 1
        a = root
        length = 0
        while seen[a] == 0 and policy[a] != _NONE:
            seen[a] = walk
            path[length] = a
            length += 1
            a = _arc(graph, policy, a)[0]
        if seen[a] == walk and _cycle_ratio(graph, policy, a) < ratio:
            policy[a] = _NONE
        seen[a] = walk
        for i in range(length - 1, -1, -1):
            b = path[i]
            if b != a:
                source, seconds, lag = _arc(graph, policy, b)
                value[b] = value[source] + seconds - ratio * lag
    return ratio, slowest


@inner_njit
def _arc(graph: EventGraph, policy: Longs, a: int) -> tuple[int, float, int]:
    """Source, seconds and lag of the wait that the policy chose for `a`."""
    w = policy[a]
    if w == _RESOURCE:
        before = graph.before[a]
        return int(before), float(graph.busy_s[before]), int(graph.before_lag[a])
    return int(graph.waits.source[w]), float(graph.waits.seconds[w]), int(graph.waits.lag[w])


@inner_njit
def _cycle_ratio(graph: EventGraph, policy: Longs, a: int) -> float:
    """Ratio of the policy's cycle through `a`."""
    total, lags = 0.0, 0
    b = a
    while True:
        b, seconds, lag = _arc(graph, policy, b)
        total += seconds
        lags += lag
        if b == a:
            return total / lags
