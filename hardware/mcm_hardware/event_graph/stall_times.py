"""Why engines and links stand still in steady state."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Longs
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.program_arrays import ProgramArrays
from mcm_hardware.event_graph.steady_state import SteadyState

INPUT, LINK, BUFFER = range(3)
"""Columns of the stall times; see `mcm_compiler.contracts.program.ChipActivity`."""


@entry_njit
def stall_times(
    program: ProgramArrays, graph: EventGraph, steady: SteadyState, period_s: float
) -> tuple[Floats, Floats]:
    """Time that each engine waited, by reason, and that transfers waited for each link.

    An engine is free from the end of a kernel until the next one starts. Until the last tensor
    that this reads was made, it waits for input. Then, until there was space for the last of them
    to arrive, for a buffer; until the last has arrived, for links; and until there is space for
    what it writes, for a buffer again. What the host or off-package memory holds is made
    already. What remains, in a part of the package that is faster than the rest, is a wait for
    the next inference: for input.

    Args:
        program: the program.
        graph: its event graph.
        steady: its steady state.
        period_s: its period.

    Returns:
        `[L + D, 3]`, seconds by resource and reason, 0 except for engines; and `[L + D]`, seconds
        that hops waited for their turn while they could have started, summed over them. Both
        for `steady.cycle` inferences.
    """
    stalls = np.zeros((graph.num_resources, 3))
    queue = np.zeros(graph.num_resources)
    maker = _makers(program)
    kernels = len(program.kernel_s)
    rows = len(steady.start_s)
    for i in range(steady.played - steady.cycle, steady.played):
        now = steady.start_s[i % rows]
        for a in range(len(graph.busy_s)):
            shift = int(graph.shift[a])
            before, lag = graph.before[a], graph.before_lag[a]
            free = steady.start_s[(i - lag) % rows, before]
            free += graph.busy_s[before] - lag * period_s
            there, room = _waits_over(graph, steady.start_s, i, a, period_s)
            if a >= kernels:
                ready = max(there, room)
                if ready > -np.inf:  # a weight that leaves is ready for all time
                    queue[graph.resource[a]] += max(min(now[a], free) - ready, 0.0)
                continue
            made, way = -np.inf, -np.inf
            for r in range(program.read_ptr[a], program.read_ptr[a + 1]):
                t = program.reads[r]
                if maker[t] >= 0:
                    by = maker[t]
                    rounds = int(graph.shift[by]) - shift
                    done = steady.start_s[(i + rounds) % rows, by] + rounds * period_s
                    made = max(made, done + graph.busy_s[by] + graph.latency_s[by])
                while t >= 0:
                    hop = int(graph.hop_ptr[t])
                    rounds = int(graph.shift[hop]) - shift
                    over = _waits_over(graph, steady.start_s, i + rounds, hop, period_s)[1]
                    way = max(way, over + rounds * period_s)
                    t = program.after[t]
            waited = stalls[graph.resource[a]]
            free = _wait_until(waited, INPUT, free, min(made, now[a]))
            free = _wait_until(waited, BUFFER, free, min(way, there))
            free = _wait_until(waited, LINK, free, there)
            free = _wait_until(waited, BUFFER, free, room)
            _wait_until(waited, INPUT, free, now[a])
    return stalls, queue


@inner_njit
def _wait_until(waited: Floats, reason: int, since: float, until: float) -> float:
    if until <= since:
        return since
    waited[reason] += until - since
    return until


@inner_njit
def _waits_over(
    graph: EventGraph, start_s: Floats, i: int, a: int, period_s: float
) -> tuple[float, float]:
    """When the data that an activity waits for is there, and when the space is."""
    waits = graph.waits
    data, room = -np.inf, -np.inf
    for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
        lag = waits.lag[w]
        over = start_s[(i - lag) % len(start_s), waits.source[w]]
        over += waits.seconds[w] - lag * period_s
        if waits.for_buffer[w]:
            room = max(room, over)
        else:
            data = max(data, over)
    return data, room


@inner_njit
def _makers(program: ProgramArrays) -> Longs:
    """`[T]`, the kernel that made what a transfer brings, or -1 for the host and memory."""
    maker = np.full(len(program.source), -1, np.int64)
    for a in range(len(program.kernel_s)):
        for i in range(program.write_ptr[a], program.write_ptr[a + 1]):
            maker[program.writes[i]] = a
    for t in range(len(maker)):
        origin = t
        while program.after[origin] >= 0:
            origin = program.after[origin]
        maker[t] = maker[origin]
    return maker
