"""Playing a timed event graph: the max-plus recurrence, inference by inference."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Longs
from mcm_hardware.event_graph.graph import EventGraph


@inner_njit
def play_inference(graph: EventGraph, start: Floats, i: int, period_s: float, since: Longs) -> None:
    """Finds when the activities of one inference start, from those of the inferences before.

    Baccelli et al. 1992, equation 2.12: `x_a(i) = max over arcs of x_source(i - lag) + seconds`,
    but not before 0. The order makes it one pass.

    Times of inference j count from `j * period_s`. With the period of the graph they stay within
    the latency of the pipeline however long it is played, and so do rounding errors.

    Args:
        graph: one that does not deadlock.
        start: `[rows, A]`; inference j stands in row `j % rows`. There are more rows than the
            greatest lag, or more than `i`. Row i is filled.
        i: the inference, or the round, from 0; those before have been played.
        period_s: see above.
        since: `[A]`, round from which on each activity takes place; before it starts at minus
            infinity, so that nothing waits for it.
    """
    rows = len(start)
    now = start[i % rows]
    waits = graph.waits
    for a in graph.order:
        if i < since[a]:
            now[a] = -np.inf
            continue
        time = -i * period_s
        before, lag = graph.before[a], graph.before_lag[a]
        while lag <= i and i - lag < since[before]:
            # What does not take place yet leaves the resource to what came before it.
            lag += graph.before_lag[before]
            before = graph.before[before]
        if lag == 0:
            time = now[before] + graph.busy_s[before]
        elif lag <= i:
            came = start[(i - lag) % rows, before] + graph.busy_s[before]
            time = max(time, came - lag * period_s)
        if i == 0 and graph.turn[a] >= 0:
            time = max(time, now[graph.turn[a]] + graph.busy_s[graph.turn[a]])
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            lag = waits.lag[w]
            if lag == 0:
                time = max(time, now[waits.source[w]] + waits.seconds[w])
            elif i >= lag:
                came = start[(i - lag) % rows, waits.source[w]]
                time = max(time, came + waits.seconds[w] - lag * period_s)
        now[a] = time


@entry_njit
def start_times(graph: EventGraph, inferences: int) -> Floats:
    """When each activity starts.

    Returns:
        `[inferences, A]`, seconds from when the first inference may enter.
    """
    last = int(graph.shift.max())
    start = np.empty((inferences + last, len(graph.busy_s)))
    for i in range(len(start)):
        play_inference(graph, start, i, 0.0, graph.shift)
    for a in range(len(graph.busy_s) if last else 0):
        for i in range(inferences):
            start[i, a] = start[i + graph.shift[a], a]
    return start[:inferences]


@inner_njit
def starts_of_a_round(graph: EventGraph) -> Floats:
    """`[A]`, when each activity starts in a lone round that all of them are part of."""
    start = np.empty((1, len(graph.busy_s)))
    play_inference(graph, start, 0, 0.0, np.zeros(len(graph.busy_s), np.int64))
    return start[0]


@inner_njit
def end_of_inference(graph: EventGraph, start: Floats) -> float:
    """When the last output of an inference is there.

    Args:
        graph: the graph.
        start: `[A]`, starts of its activities.
    """
    end = 0.0
    for a in graph.finals:
        end = max(end, float(start[a] + graph.busy_s[a] + graph.latency_s[a]))
    return end


@entry_njit
def busy_per_resource(graph: EventGraph) -> Floats:
    """`[num_resources]`, seconds per inference."""
    busy = np.zeros(graph.num_resources)
    for a in range(len(graph.busy_s)):
        busy[graph.resource[a]] += graph.busy_s[a]
    return busy
