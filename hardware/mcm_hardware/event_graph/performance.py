"""How fast a program runs, in compiled code: what single and batch evaluators have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats
from mcm_hardware.event_graph.cycle_ratio import maximum_cycle_ratio
from mcm_hardware.event_graph.graph import EventGraph
from mcm_hardware.event_graph.max_plus import busy_per_resource, end_of_inference, start_times


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
