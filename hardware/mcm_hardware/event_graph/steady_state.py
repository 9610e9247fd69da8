"""The steady state of an event graph: found by playing it, or else computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Longs
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.event_graph.cycle_ratio import improve
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.max_plus import play_inference

MAX_CYCLICITY = 16
"""Longest pattern, in inferences, that is looked for."""

_RELATIVE_TOLERANCE = 1e-12


class SteadyState(NamedTuple):
    """Inferences that repeat for ever.

    Attributes:
        start_s: `[rows, A]`; starts of inference i stand in row `i % rows` and count from
            `i * period`.
        played: inferences that were played; the last `cycle` of them repeat.
        cycle: length of the pattern.
        since: inference from which starts repeat, or -1 where they did not within `played`, and
            `start_s` is a steady state that the graph has, rather than the one that it reaches.
    """

    start_s: Floats
    played: int
    cycle: int
    since: int


@entry_njit
def steady_state(
    graph: EventGraph, period_s: float, critical: int, least: int, most: int
) -> SteadyState:
    """Plays inferences until they repeat.

    Let all starts of as many successive inferences as the greatest lag be `c` periods later than
    those of c inferences before. Then they are so for ever, because the recurrence looks back no
    further (Baccelli et al. 1992, theorem 3.109). A strongly connected graph reaches this in finite
    time. It may take long, since a part that is a little faster than the rest runs ahead until
    the buffers behind it are full. Parts without any connection to each other need not reach
    one period, and are not looked at for it.

    Args:
        graph: one that does not deadlock.
        period_s: its maximum cycle ratio.
        critical: an activity on a cycle that attains it.
        least: inferences to play at least.
        most: inferences to play at most.
    """
    value = from_critical(graph, period_s, critical)[0]
    for a in range(len(value)):
        if value[a] == -np.inf:
            most = least
    # How far back a round looks: over all rounds of an inference, and those that it waits for.
    lags = 1
    for w in range(graph.wait_ptr[-1]):
        lags = max(lags, graph.waits.lag[w])
    lags += int(graph.shift.max())
    start = np.zeros((lags + MAX_CYCLICITY + 1, len(graph.busy_s)))
    # How many inferences in a row were as those c before, and an activity that was not.
    streak = np.zeros(MAX_CYCLICITY + 1, np.int64)
    suspect = np.zeros(MAX_CYCLICITY + 1, np.int64)
    cycle, since = 0, -1
    played = variable(0)
    tolerance = 0.0
    while played < least or (cycle == 0 and played < most):
        i = played
        play_inference(graph, start, i, period_s, graph.shift)
        played += 1
        if i == 0:
            tolerance = _RELATIVE_TOLERANCE * (period_s + _greatest(start[0]))
        if cycle > 0:
            continue
        for c in range(1, min(i, MAX_CYCLICITY) + 1):
            now, then = start[i % len(start)], start[(i - c) % len(start)]
            if not _alike(now, then, tolerance, c, suspect):
                streak[c] = 0
                continue
            streak[c] += 1
            if streak[c] >= lags:
                cycle, since = c, i - lags + 1 - c
                break
    if cycle == 0:
        _fill_rest(graph, period_s, value)
        return SteadyState(value.reshape((1, -1)), played, 1, -1)
    return SteadyState(start, played, cycle, since)


@inner_njit
def _alike(now: Floats, then: Floats, tolerance: float, c: int, suspect: Longs) -> bool:
    """Return whether two inferences start alike; what gave the last one away is looked at first."""
    if abs(now[suspect[c]] - then[suspect[c]]) > tolerance:
        return False
    for a in range(len(now)):
        if abs(now[a] - then[a]) > tolerance:
            suspect[c] = a
            return False
    return True


@entry_njit
def from_critical(graph: EventGraph, period_s: float, critical: int) -> tuple[Floats, Longs]:
    """Starts of a steady state in which all inferences are alike.

    An eigenvector of the graph (Baccelli et al. 1992, theorem 3.101): the longest paths from an
    activity that is critical, with `period_s` off for each lag.

    Returns:
        `[A]`, minus infinity where there is no path; and the wait that is over last for each, or -1
        for that for its resource.
    """
    value = np.full(len(graph.busy_s), -np.inf)
    value[critical] = 0.0
    return value, _settle(graph, period_s, value)


@inner_njit
def _fill_rest(graph: EventGraph, period_s: float, value: Floats) -> None:
    """Gives one inference each period to the parts that are a machine of their own."""
    for a in range(len(value)):
        if value[a] == -np.inf:
            value[a] = 0.0
    _settle(graph, period_s, value)


@inner_njit
def _settle(graph: EventGraph, period_s: float, value: Floats) -> Longs:
    """Raises values until all waits hold, as far as rounding lets them; what each waits for."""
    policy = np.full(len(value), -1)
    for _ in range(len(value) + 1):
        tolerance = _RELATIVE_TOLERANCE * (period_s + _greatest(value))
        if not improve(graph, period_s, value, policy, tolerance)[0]:
            break
    return policy


@inner_njit
def _greatest(value: Floats) -> float:
    """Greatest entry, at least 0."""
    greatest = 0.0
    for a in range(len(value)):
        greatest = max(greatest, float(value[a]))
    return greatest
