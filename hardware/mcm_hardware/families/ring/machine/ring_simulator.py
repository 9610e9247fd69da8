"""The simulator of ring packages."""

from __future__ import annotations

from mcm_hardware.families.ring.machine.ring_machine import ring_machine
from mcm_hardware.families.ring.machine.ring_spec import RingSpec
from mcm_hardware.package.machine_simulator import MachineSimulator

NAME = "ring-event-graph"
"""What is printed with every number of a ring's simulator."""


def ring_simulator(spec: RingSpec) -> MachineSimulator:
    """The simulator of a ring package."""
    return MachineSimulator(ring_machine(spec), NAME)
