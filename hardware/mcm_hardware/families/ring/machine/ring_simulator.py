"""The simulator of ring packages."""

from __future__ import annotations

from mcm_hardware.families.ring.ring_machine import ring_machine
from mcm_hardware.families.ring.ring_spec import RingSpec
from mcm_hardware.machine_simulator import MachineSimulator

NAME = "ring-event-graph"
"""What is printed with every number of a ring's simulator."""


def ring_simulator(spec: RingSpec) -> MachineSimulator:
    """The simulator of a ring package."""
    return MachineSimulator(ring_machine(spec), NAME)
