"""The simulator of machines: plays a lowered program for many inferences in flight."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.program import (
    ChipActivity,
    ChipProgram,
    Hop,
    LinkActivity,
    LoweredProgram,
    SimulationResult,
    Timeline,
)
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import Machine
from mcm_hardware.event_graph.cycle_ratio import performance
from mcm_hardware.event_graph.graph import EventGraph, event_graph
from mcm_hardware.event_graph.max_plus import start_times
from mcm_hardware.event_graph.program_arrays import ProgramArrays, channel_arrays, program_arrays
from mcm_hardware.event_graph.program_check import check_program, check_timeline
from mcm_hardware.event_graph.stall_times import BUFFER, INPUT, LINK, stall_times
from mcm_hardware.event_graph.steady_schedule import served
from mcm_hardware.event_graph.steady_state import steady_state
from mcm_hardware.event_graph.wait_cycle import deadlock, slowest_cycle
from mcm_hardware.package.start_times import check_start_times

_MOST_INFERENCES = 100_000
_MOST_STEPS = 50_000_000
"""How long a program is played for it to settle: half a second at most."""

_ROUNDING = 1e-9
"""Share of a period below which a resource counts as busy for all of it."""


@dataclass(frozen=True)
class MachineSimulator:
    """Implements `mcm_compiler.contracts.program.Simulator` for programs of any machine.

    One compute engine per device in program order; transfers overlap compute; channels serve one
    transfer at a time; send and receive buffers are bounded and hold the sender back. The host
    feeds inputs as soon as there is a buffer for them. See `event_graph/graph.py` for the rules.

    Attributes:
        machine: devices, channels and routes.
        name: printed with every number that comes from it.
    """

    machine: Machine
    name: str = "event-graph"

    def run(self, program: LoweredProgram, inferences: int = 64) -> SimulationResult:
        """Plays inferences that enter as fast as the machine takes them, until they repeat.

        The period is the maximum cycle ratio of the event graph. Stalls and queues are those of
        the steady state that the graph reaches. Where it does not settle soon enough, or never,
        because the program falls apart into parts of different speed, they are those of a steady
        state that it has.

        Args:
            program: from a lowering for this machine, or read back from a file.
            inferences: how many are played at least; at least 1.

        Raises:
            ValueError: if `inferences` is less than 1.
            CompileError: MCM-T010 if the program deadlocks, MCM-T011 if it does not fit,
                MCM-T012 if it contradicts itself or the machine, MCM-T013 if it is too large,
                MCM-T017 if its start times break a wait.
        """
        if inferences < 1:
            raise ValueError(f"{inferences} inferences cannot be simulated")
        arrays, lone, graph = self._graphs(program)
        speed = performance(graph)
        most = min(_MOST_INFERENCES, _MOST_STEPS // (len(graph.busy_s) + int(graph.wait_ptr[-1])))
        steady = steady_state(graph, speed.period_s, speed.critical, inferences, most)
        stalls, queue = stall_times(arrays, graph, steady, speed.period_s)
        stalls, queue = stalls / steady.cycle, queue / steady.cycle
        engines = self.machine.num_channels
        waits: tuple[str, ...] = ()
        if speed.busy_s.max() < speed.period_s * (1.0 - _ROUNDING):
            waits = slowest_cycle(graph, speed.period_s, speed.critical)
        return SimulationResult(
            simulator=self.name,
            period_s=speed.period_s,
            latency_s=(speed if lone is graph else performance(lone)).latency_s,
            inferences=steady.played,
            chips=tuple(
                _chip_activity(chip, speed.busy_s[engines + chip.chip], stalls[engines + chip.chip])
                for chip in program.chips
            ),
            links=_link_activity(arrays, self.machine, graph, speed.busy_s, queue),
            steady_from=steady.since if steady.since >= 0 else None,
            cycle_waits=waits,
        )

    def timeline(self, program: LoweredProgram, inferences: int = 8) -> Timeline:
        """When each kernel and each hop of the first `inferences` inferences starts.

        Raises:
            ValueError: if `inferences` is less than 1.
            CompileError: as `run`; MCM-T013 also if there are too many inferences to keep.
        """
        if inferences < 1:
            raise ValueError(f"{inferences} inferences cannot be simulated")
        _, _, graph = self._graphs(program)
        check_timeline(len(graph.busy_s), inferences + int(graph.shift.max()))
        start = start_times(graph, inferences)
        kernels = int(graph.hop_ptr[0])
        transfer = np.repeat(np.arange(len(program.transfers)), np.diff(graph.hop_ptr))
        return Timeline(
            program=program,
            hops=tuple(
                Hop(
                    int(transfer[hop - kernels]),
                    *_ends(self.machine, int(graph.resource[hop])),
                    float(graph.busy_s[hop]),
                    float(graph.latency_s[hop]),
                )
                for hop in range(kernels, len(graph.busy_s))
            ),
            kernel_start_s=start[:, :kernels],
            hop_start_s=start[:, kernels:],
        )

    def _graphs(self, program: LoweredProgram) -> tuple[ProgramArrays, EventGraph, EventGraph]:
        """The arrays of a program that runs, and its event graph for one inference and for many."""
        check_program(program, self.machine)
        arrays, channels = program_arrays(program), channel_arrays(self.machine)
        graph = event_graph(arrays, channels)
        if len(graph.order) < len(graph.busy_s):
            raise CompileError(deadlock(program, graph))
        if not program.start_s:
            return arrays, graph, graph
        check_start_times(program, graph, channels)
        start = np.array(program.start_s)
        lone = served(graph, channels, np.inf, start)
        return arrays, lone, served(graph, channels, program.period_s, start)


def _chip_activity(chip: ChipProgram, busy_s: float, stalls: Floats) -> ChipActivity:
    engine_s: defaultdict[str, float] = defaultdict(float)
    for kernel in chip.kernels:
        engine_s[kernel.engine] += kernel.duration_s - kernel.launch_s
        engine_s["launch"] += kernel.launch_s
    return ChipActivity(
        chip=chip.chip,
        busy_s=float(busy_s),
        stall_s={
            "input": float(stalls[INPUT]),
            "link": float(stalls[LINK]),
            "buffer": float(stalls[BUFFER]),
        },
        engine_s={engine: time for engine, time in sorted(engine_s.items()) if time > 0},
        high_water_bytes=chip.high_water_bytes,
    )


def _link_activity(
    arrays: ProgramArrays, machine: Machine, graph: EventGraph, busy_s: Floats, queue_s: Floats
) -> tuple[LinkActivity, ...]:
    """Used channels by source and destination."""
    hops = graph.resource[int(graph.hop_ptr[0]) :]
    carried = np.zeros(graph.num_resources, np.int64)
    np.add.at(carried, hops, np.repeat(arrays.size_bytes, np.diff(graph.hop_ptr)))
    used = [int(channel) for channel in np.unique(hops)]
    return tuple(
        LinkActivity(
            *_ends(machine, channel),
            float(busy_s[channel]),
            int(carried[channel]),
            float(queue_s[channel]),
        )
        for channel in sorted(used, key=lambda channel: _ends(machine, channel))
    )


def _ends(machine: Machine, channel: int) -> tuple[int, int]:
    """Source and destination of a channel, as in `LinkActivity`."""
    source, destination = machine.channel_ends[channel].tolist()
    return source, destination
