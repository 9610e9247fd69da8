"""Four chips in a ring that sends one byte per second, and programs of a few kernels on them."""

from __future__ import annotations

from dataclasses import replace

from mcm_compiler.contracts.program import (
    ChipProgram,
    Kernel,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.contracts.target import HOST
from mcm_hardware.families.ring.batch.ring_evaluator import NAME
from mcm_hardware.families.ring.ring_machine import RingSpec, ring_machine
from mcm_hardware.families.ring.ring_target import mcm36
from mcm_hardware.package.machine_simulator import MachineSimulator

REFERENCE = mcm36().spec.reference
STORE = RingSpec(
    summary="one byte per second",
    reference=REFERENCE,
    chips=(REFERENCE,) * 4,
    physical=(0, 1, 2, 3),
    link_bytes_per_s=1.0,
    hop_latency_s=(0.5, 0.5, 2.0),
    switching="store_and_forward",
    host_io="any",
    host_bytes_per_s=1.0,
    host_latency_s=0.0,
    channel_slots=2,
    stream_bytes_per_s=1.0,
    stream_latency_s=0.25,
)
CUT = replace(STORE, switching="cut_through")


def ring_simulator(spec: RingSpec) -> MachineSimulator:
    """The simulator of a ring package."""
    return MachineSimulator(ring_machine(spec), NAME)


def play(
    spec: RingSpec, chips: dict[int, list[Kernel]], transfers: list[Transfer]
) -> SimulationResult:
    made = tuple(ChipProgram(c, tuple(kernels), (), 0, 0) for c, kernels in chips.items())
    return ring_simulator(spec).run(LoweredProgram("unit", made, tuple(transfers)))


def kernel(seconds: float, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> Kernel:
    return Kernel("k", (), seconds, reads, writes)


def far(spec: RingSpec, slots: int = 4) -> SimulationResult:
    chips = {0: [kernel(1.0, (), (0,))], 3: [kernel(1.0, (0,), (1,))]}
    return play(spec, chips, [Transfer("a", 0, 3, 4, slots), Transfer("y", 3, HOST, 1, slots)])
