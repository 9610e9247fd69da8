"""The contract of simulators: the independent judge of a lowered program.

A simulator is kept apart from the cost model, or search would optimise its own referee.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mcm_compiler.ir.annotations import AnnotationKey
from mcm_compiler.program import LoweredProgram


@dataclass(frozen=True)
class ChipActivity:
    """What a chip did, per inference in steady state.

    Attributes:
        chip: index on the ring.
        busy_s: time its compute engine worked.
        stall_s: time it waited, by reason (`input`, `buffer`).
        high_water_bytes: SRAM used.
    """

    chip: int
    busy_s: float
    stall_s: dict[str, float] = field(default_factory=dict[str, float])
    high_water_bytes: int = 0


@dataclass(frozen=True)
class LinkActivity:
    """What a link carried, per inference in steady state.

    Attributes:
        source: the chip it leaves, or -1 for the host.
        destination: the chip it reaches, or -1 for the host.
        busy_s: time it was taken.
        bytes_per_inference: bytes it carried.
    """

    source: int
    destination: int
    busy_s: float
    bytes_per_inference: int


@dataclass(frozen=True)
class SimulationResult:
    """The verdict on a program.

    Attributes:
        simulator: name of the simulator.
        period_s: time between two inferences that leave the package, in steady state.
        latency_s: from the start of the first inference to its last output.
        inferences: how many were simulated.
        chips: one entry per used chip.
        links: one entry per used link, host links included.
    """

    simulator: str
    period_s: float
    latency_s: float
    inferences: int
    chips: tuple[ChipActivity, ...]
    links: tuple[LinkActivity, ...]

    @property
    def throughput_per_s(self) -> float:
        """Inferences per second in steady state."""
        return 1.0 / self.period_s


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


SIMULATION: AnnotationKey[SimulationResult] = AnnotationKey("simulation")
"""The simulator's verdict on the lowered program."""
