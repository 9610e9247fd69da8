"""Playing a timed event graph: the max-plus recurrence, inference by inference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_hardware.event_graph import EventGraph

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MAX_CYCLICITY = 16
"""Longest pattern, in inferences, that is looked for in the steady state."""

_RELATIVE_TOLERANCE = 1e-12


def start_times(graph: EventGraph, inferences: int) -> Floats:
    """Earliest start of each activity.

    Baccelli et al. 1992, equation 2.12: `x_a(i) = max over arcs of x_source(i - lag) + weight`,
    and 0 where an activity waits for nothing. The order makes it one pass per inference.

    Returns:
        `[inferences, A]`, seconds from when the first inference may enter.
    """
    arcs = graph.arcs
    return _play(inferences, graph.order, arcs.ptr, arcs.source, arcs.weight_s, arcs.lag)


@njit(cache=True)
def _play(
    inferences: int, order: Longs, ptr: Longs, source: Longs, weight: Floats, lag: Longs
) -> Floats:
    start = np.zeros((inferences, len(order)))
    for i in range(inferences):
        for a in order:
            time = 0.0
            for arc in range(ptr[a], ptr[a + 1]):
                before = i - lag[arc]
                if before >= 0:
                    time = max(time, start[before, source[arc]] + weight[arc])
            start[i, a] = time
    return start


@njit(cache=True)
def waiting_times(
    start: Floats,
    ptr: Longs,
    source: Longs,
    weight: Floats,
    lag: Longs,
    wait: Longs,
    first_inference: int,
) -> Floats:
    """How long each activity kept its resource idle, by reason.

    From when the resource is free until the last input is there is a wait for input; what remains
    until the start is a wait for a buffer.

    Args:
        start: `[inferences, A]`, from `start_times`.
        ptr: `[A + 1]`, as `ArcArrays.ptr`.
        source: `[E]`, as `ArcArrays.source`.
        weight: `[E]`, as `ArcArrays.weight_s`.
        lag: `[E]`, as `ArcArrays.lag`.
        wait: `[E]`, as `ArcArrays.wait`.
        first_inference: the first that counts.

    Returns:
        `[A, 2]`, seconds for input and for buffers, summed over the inferences that count.
    """
    inferences, activities = start.shape
    waits = np.zeros((activities, 2))
    for i in range(first_inference, inferences):
        for a in range(activities):
            free, there = 0.0, 0.0
            for arc in range(ptr[a], ptr[a + 1]):
                before = i - lag[arc]
                if before < 0:
                    continue
                end = start[before, source[arc]] + weight[arc]
                if wait[arc] == 0:
                    free = max(free, end)
                elif wait[arc] == 1:
                    there = max(there, end)
            waits[a, 0] += max(there - free, 0.0)
            waits[a, 1] += max(start[i, a] - max(free, there), 0.0)
    return waits


def steady_cycle(start: Floats, max_lag: int) -> int | None:
    """Length of the pattern in which the last inferences repeat, or None.

    If all starts of `max_lag` successive inferences lie a constant later than those of c
    inferences before, they do so for ever: the recurrence looks back no further (Baccelli et al.
    1992, theorem 3.109, says that a strongly connected graph comes to this in finite time).

    Args:
        start: `[inferences, A]`, from `start_times`.
        max_lag: the greatest lag of an arc.
    """
    inferences = len(start)
    tolerance = _RELATIVE_TOLERANCE * float(start[-1].max(initial=0.0))
    for cycle in range(1, MAX_CYCLICITY + 1):
        if inferences < cycle + max_lag:
            return None
        moved = start[inferences - max_lag :] - start[inferences - max_lag - cycle : -cycle]
        if float(moved.max(initial=0.0) - moved.min(initial=np.inf)) <= tolerance:
            return cycle
    return None
