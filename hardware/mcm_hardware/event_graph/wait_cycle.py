"""Cycles of waits: those of a program that deadlocks, and the one that sets a period."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.machines.machine import place_text
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.steady_state import from_critical

_SHOWN = 8
"""Activities of a cycle that are named."""


def wait_cycle(graph: EventGraph) -> list[int]:
    """Activities of which each waits for the next, and the last for the first.

    Args:
        graph: one that deadlocks.
    """
    stuck = np.ones(len(graph.busy_s), np.bool_)
    stuck[graph.order] = False
    # Each stuck activity waits for one that is stuck: follow these until one comes again.
    path: dict[int, int] = {}
    activity = int(np.flatnonzero(stuck)[0])
    while activity not in path:
        path[activity] = len(path)
        activity = next(a for a in _waits_for(graph, activity) if stuck[a])
    return list(path)[path[activity] :]


def _waits_for(graph: EventGraph, activity: int) -> list[int]:
    """Predecessors of an activity within its inference."""
    begin, end = int(graph.wait_ptr[activity]), int(graph.wait_ptr[activity + 1])
    found = [int(graph.waits.source[w]) for w in range(begin, end) if graph.waits.lag[w] == 0]
    if 0 < activity < graph.hop_ptr[0]:
        # Kernels of a chip stand one after another.
        found += [a for a in (activity - 1,) if graph.resource[a] == graph.resource[activity]]
    return found


def slowest_cycle(graph: EventGraph, period_s: float, critical: int) -> tuple[str, ...]:
    """Kinds of waits on a cycle that sets the period, as in `SimulationResult.cycle_waits`.

    Args:
        graph: one that does not deadlock.
        period_s: its maximum cycle ratio.
        critical: an activity on a cycle that attains it.
    """
    value, policy = from_critical(graph, period_s, critical)
    found: set[str] = set()
    at, ends = critical, np.full(len(value), -1)
    # The critical activity waits longest for the last one of the cycle; policies lead back to it.
    wanted = -np.inf
    for choice in (-1, *range(int(graph.wait_ptr[at]), int(graph.wait_ptr[at + 1]))):
        source, seconds, lag = _arc(graph, at, choice)
        if value[source] + seconds - lag * period_s > wanted:
            wanted, policy[at] = value[source] + seconds - lag * period_s, choice
    while ends[at] < 0:
        ends[at], choice = 1, int(policy[at])
        source, _, lag = _arc(graph, at, choice)
        if choice >= 0 and graph.waits.for_buffer[choice]:
            found.add("buffer")
        elif choice >= 0 and lag + graph.shift[source] - graph.shift[at] > 0 and source != at:
            found.add("step")
        elif choice < 0 and at >= graph.hop_ptr[0]:
            found.add("channel")
        at = source
    return tuple(sorted(found))


def _arc(graph: EventGraph, a: int, choice: int) -> tuple[int, float, int]:
    """Source, seconds and lag of a wait of `a`; of that for its resource where -1."""
    if choice < 0:
        before = int(graph.before[a])
        return before, float(graph.busy_s[before]), int(graph.before_lag[a])
    waits = graph.waits
    return int(waits.source[choice]), float(waits.seconds[choice]), int(waits.lag[choice])


def deadlock(program: LoweredProgram, graph: EventGraph) -> Diagnostic:
    """MCM-T010 with the cycle of waits.

    Args:
        program: a program that deadlocks.
        graph: its event graph.
    """
    names: list[str] = []
    for activity in wait_cycle(graph):
        name = activity_name(program, graph, activity)
        if not names or names[-1] != name:
            names.append(name)
    return Diagnostic("MCM-T010", f"the program deadlocks: {_told(names)}", at=names[0])


def activity_name(program: LoweredProgram, graph: EventGraph, activity: int) -> str:
    """A kernel or a transfer, as diagnostics name it."""
    if activity < graph.hop_ptr[0]:
        for chip in program.chips:
            if activity < len(chip.kernels):
                return f"kernel {quote(chip.kernels[activity].name)} of chip {chip.chip}"
            activity -= len(chip.kernels)
    index = int(np.searchsorted(graph.hop_ptr, activity, side="right")) - 1
    transfer = program.transfers[index]
    source = place_text(transfer.source, "chip")
    destination = place_text(transfer.destination, "chip")
    return f"transfer {index} of {quote(transfer.tensor)} from {source} to {destination}"


def _told(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} waits for itself"
    shown = [*names[:_SHOWN], f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [*names]
    return f"{shown[0]} waits for {', which waits for '.join([*shown[1:], 'the first'])}"
