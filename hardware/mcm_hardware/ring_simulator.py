"""The simulator of ring packages: plays a lowered program for many inferences in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.program import LoweredProgram
from mcm_compiler.simulation import ChipActivity, LinkActivity, SimulationResult
from mcm_hardware.chip_spec import RingSpec
from mcm_hardware.event_graph import EventGraph, build_event_graph, route
from mcm_hardware.max_plus import start_times, steady_cycle, waiting_times
from mcm_hardware.program_check import check_program

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RingSimulator:
    """Implements `mcm_compiler.simulation.Simulator`.

    One compute engine per chip in program order; transfers overlap compute; links serve one
    transfer at a time; send and receive buffers are bounded and hold the sender back. The host
    feeds inputs as soon as there is a buffer for them. See `event_graph.py` for the rules.

    Attributes:
        spec: the package.
        name: printed with every number that comes from it.
    """

    spec: RingSpec
    name: str = "ring-event-graph"

    def run(self, program: LoweredProgram, inferences: int = 64) -> SimulationResult:
        """Plays `inferences` inferences that enter as fast as the package takes them.

        The period is exact where the last inferences repeat in a pattern; otherwise it is the
        mean over the second half, but never less than the busiest chip or link allows.

        Args:
            program: from the lowering of this package, or read back from a file.
            inferences: at least 1.

        Raises:
            ValueError: if `inferences` is less than 1.
            CompileError: MCM-T010 if a transfer has no buffer to arrive in, MCM-T011 if the
                program does not fit, MCM-T012 if it contradicts itself.
        """
        if inferences < 1:
            raise ValueError(f"{inferences} inferences cannot be simulated")
        check_program(program, self.spec.num_chips)
        graph = build_event_graph(program, self.spec)
        start = start_times(graph, inferences)
        ended = (start + graph.busy_s + graph.latency_s)[:, graph.finals].max(axis=1)
        cycle = steady_cycle(start, int(graph.arcs.lag.max(initial=1)))
        window = cycle if cycle is not None else max(inferences // 2, 1)
        return SimulationResult(
            simulator=self.name,
            period_s=_period(graph, ended, window),
            latency_s=float(ended[0]),
            inferences=inferences,
            chips=_chip_activity(program, graph, start, window),
            links=self._link_activity(program, graph),
        )

    def _link_activity(
        self, program: LoweredProgram, graph: EventGraph
    ) -> tuple[LinkActivity, ...]:
        carried = dict.fromkeys(graph.links, 0)
        for transfer in program.transfers:
            for link in route(transfer, self.spec):
                carried[link] += transfer.size_bytes
        return tuple(
            LinkActivity(*link, float(graph.busy_s[hops].sum()), carried[link])
            for link, hops in zip(graph.links, graph.link_hops, strict=True)
        )


def _period(graph: EventGraph, ended: Floats, window: int) -> float:
    """Seconds between inferences, over the last `window` of them."""
    loads = [graph.busy_s[hops].sum() for hops in graph.link_hops]
    loads += [
        graph.busy_s[begin:end].sum()
        for begin, end in zip(graph.kernel_ptr[:-1], graph.kernel_ptr[1:], strict=True)
    ]
    # A resource serves inferences one after another, so no steady state is faster; a few
    # inferences that still drain from the start may be.
    floor = float(max(loads))
    if len(ended) == 1:
        return float(ended[0])
    return max(float(ended[-1] - ended[-1 - window]) / window, floor)


def _chip_activity(
    program: LoweredProgram, graph: EventGraph, start: Floats, window: int
) -> tuple[ChipActivity, ...]:
    arcs = graph.arcs
    waits = waiting_times(
        start, arcs.ptr, arcs.source, arcs.weight_s, arcs.lag, arcs.wait, len(start) - window
    )
    activity: list[ChipActivity] = []
    for position, chip in enumerate(program.chips):
        kernels = slice(int(graph.kernel_ptr[position]), int(graph.kernel_ptr[position + 1]))
        on_input, on_buffer = waits[kernels].sum(axis=0) / window
        activity.append(
            ChipActivity(
                chip=chip.chip,
                busy_s=float(graph.busy_s[kernels].sum()),
                stall_s={"input": float(on_input), "buffer": float(on_buffer)},
                high_water_bytes=chip.high_water_bytes,
            )
        )
    return tuple(activity)
