"""The contract of simulators, which play a lowered program and measure its throughput.

A simulator is kept apart from the cost model, or search would optimise its own referee.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.program import PROGRAM, LoweredProgram
from mcm_compiler.graph.annotations import AnnotationKey

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ChipActivity:
    """Activity of a chip, per inference in steady state.

    Attributes:
        chip: index on the ring.
        busy_s: time its compute engine worked.
        stall_s: time it waited, by reason: `input` (an operand was not made yet), `link` (it was
            made, and in transfer or queueing for a link), `buffer` (back-pressure).
        engine_s: the part of `busy_s` that each engine limits; launches are `launch`.
        high_water_bytes: SRAM used.
    """

    chip: int
    busy_s: float
    stall_s: dict[str, float] = field(default_factory=dict[str, float])
    engine_s: dict[str, float] = field(default_factory=dict[str, float])
    high_water_bytes: int = 0


@dataclass(frozen=True)
class LinkActivity:
    """Traffic of a link, per inference in steady state.

    Attributes:
        source: the chip it leaves, or a place outside as in `mcm_compiler.machines.machine`.
        destination: the chip it reaches, or such a place.
        busy_s: time it was taken.
        bytes_per_inference: bytes it carried.
        queue_s: time that ready transfers waited for the link, summed over them.
    """

    source: int
    destination: int
    busy_s: float
    bytes_per_inference: int
    queue_s: float = 0.0


@dataclass(frozen=True)
class SimulationResult:
    """Result of simulating a program.

    Attributes:
        simulator: name of the simulator.
        period_s: time between two inferences that leave the package, in steady state.
        latency_s: from the start of the first inference to its last output.
        inferences: how many were simulated.
        chips: one entry per used chip.
        links: one entry per used link, host links included.
        steady_from: the inference from which starts repeat with the period, or None where the
            pattern did not settle and the period is the maximum cycle ratio of the event graph.
    """

    simulator: str
    period_s: float
    latency_s: float
    inferences: int
    chips: tuple[ChipActivity, ...]
    links: tuple[LinkActivity, ...]
    steady_from: int | None = None

    @property
    def throughput_per_s(self) -> float:
        """Inferences per second in steady state."""
        return 1.0 / self.period_s


@dataclass(frozen=True)
class Hop:
    """One transfer on one link.

    Attributes:
        transfer: index into `LoweredProgram.transfers`.
        source: as in `LinkActivity`.
        destination: as in `LinkActivity`.
        busy_s: time that it takes the link.
        latency_s: time from then until the tensor has arrived.
    """

    transfer: int
    source: int
    destination: int
    busy_s: float
    latency_s: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """When everything happened in a simulation.

    Attributes:
        program: what was simulated.
        hops: all hops of one inference.
        kernel_start_s: `[inferences, kernels]`, kernels chip by chip in the order of the program.
        hop_start_s: `[inferences, hops]`.
    """

    program: LoweredProgram
    hops: tuple[Hop, ...]
    kernel_start_s: Floats
    hop_start_s: Floats


class Simulator(Protocol):
    """Executes lowered programs for many inferences in flight."""

    @property
    def name(self) -> str: ...

    def run(self, program: LoweredProgram, inferences: int = 64) -> SimulationResult:
        """Simulates `inferences` inferences that enter as fast as the package takes them.

        Raises:
            CompileError: MCM-T010 if the program deadlocks, MCM-T011 if it does not fit.
        """
        ...

    def timeline(self, program: LoweredProgram, inferences: int = 8) -> Timeline:
        """When each kernel and each hop of the first `inferences` inferences starts.

        Raises:
            CompileError: as `run`.
        """
        ...


SIMULATION: AnnotationKey[SimulationResult] = AnnotationKey("simulation", derived_from=(PROGRAM,))
"""Result of simulating the lowered program."""
