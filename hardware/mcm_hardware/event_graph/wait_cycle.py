"""Why a program deadlocks: the activities that wait for each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.machines.machine import place_text
from mcm_hardware.event_graph.graph import EventGraph

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
    """What an activity waits for within its inference."""
    begin, end = int(graph.wait_ptr[activity]), int(graph.wait_ptr[activity + 1])
    found = [int(graph.waits.source[w]) for w in range(begin, end) if graph.waits.lag[w] == 0]
    if 0 < activity < graph.hop_ptr[0]:
        # Kernels of a chip stand one after another.
        found += [a for a in (activity - 1,) if graph.resource[a] == graph.resource[activity]]
    return found


def deadlock(program: LoweredProgram, graph: EventGraph) -> Diagnostic:
    """MCM-T010 with the cycle of waits.

    Args:
        program: a program that deadlocks.
        graph: its event graph.
    """
    kernels = [
        f"kernel {quote(kernel.name)} of chip {chip.chip}"
        for chip in program.chips
        for kernel in chip.kernels
    ]
    names: list[str] = []
    for activity in wait_cycle(graph):
        if activity < len(kernels):
            name = kernels[activity]
        else:
            index = int(np.searchsorted(graph.hop_ptr, activity, side="right")) - 1
            transfer = program.transfers[index]
            source = place_text(transfer.source, "chip")
            destination = place_text(transfer.destination, "chip")
            name = f"transfer {index} of {quote(transfer.tensor)} from {source} to {destination}"
        if not names or names[-1] != name:
            names.append(name)
    return Diagnostic(
        "MCM-T010",
        f"the program deadlocks: {_told(names)}",
        at=names[0],
        hint="compile the model again; the program was changed, or its lowering is at fault",
    )


def _told(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} waits for itself"
    shown = [*names[:_SHOWN], f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [*names]
    return f"{shown[0]} waits for {', which waits for '.join([*shown[1:], 'the first'])}"
