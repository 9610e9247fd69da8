"""Energy and area: what a target says of joules and square millimetres.

Energy is a sum over what an inference does, whatever the time that it takes; it is searched for
where that is the objective, and counted everywhere else. Static power is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mcm_compiler.arrays.types import Floats


@dataclass(frozen=True)
class ChipWork:
    """What one inference asks of a chip, as far as it costs energy.

    Attributes:
        macs: multiply-accumulates on the chip, that is, half of its operations.
        sram_bytes: read from and written to its SRAM, as the cost model counts them.
        link_bytes: on links that leave the chip for other chips, what it passes on included.
        memory_bytes: from off-package memory to the chip.
        host_bytes: between the host and the chip, both ways.
    """

    macs: float = 0.0
    sram_bytes: int = 0
    link_bytes: int = 0
    memory_bytes: int = 0
    host_bytes: int = 0


@dataclass(frozen=True)
class Joules:
    """Energy by kind.

    Attributes:
        compute_j: of arithmetic.
        sram_j: of reads and writes of SRAM.
        links_j: of links between chips.
        memory_j: of off-package memory.
        host_j: of links to the host.
    """

    compute_j: float = 0.0
    sram_j: float = 0.0
    links_j: float = 0.0
    memory_j: float = 0.0
    host_j: float = 0.0

    @property
    def total_j(self) -> float:
        """All kinds together."""
        return self.compute_j + self.sram_j + self.links_j + self.memory_j + self.host_j


@dataclass(frozen=True)
class EnergyCosts:
    """Joules of what an inference does; the same on all chips, however fast they run.

    Attributes:
        mac_j: of a multiply-accumulate; any other operation counts as half of one.
        sram_byte_j: of a byte that is read from or written to SRAM.
        link_byte_j: of a byte on one link between two chips; on a way of several links it counts
            once for each.
        host_byte_j: of a byte between the host and a chip.
        memory_byte_j: of a byte from off-package memory; 0 where there is none.
    """

    mac_j: float
    sram_byte_j: float
    link_byte_j: float
    host_byte_j: float
    memory_byte_j: float = 0.0

    def of(self, work: ChipWork) -> Joules:
        """The energy of one chip's work."""
        return Joules(
            work.macs * self.mac_j,
            work.sram_bytes * self.sram_byte_j,
            work.link_bytes * self.link_byte_j,
            work.memory_bytes * self.memory_byte_j,
            work.host_bytes * self.host_byte_j,
        )


@dataclass(frozen=True, eq=False)
class UnitEnergies:
    """What each part of a placement problem of N units and T tensors costs wherever it is.

    Attributes:
        unit_j: `[N]`, joules of arithmetic, SRAM and round trips to the host of each unit, once for
            each chip that runs it.
        relay_j: `[T]`, joules of one relay (Identity) of each tensor on a chip.
        link_byte_j: of a byte on one link.
        host_byte_j: of a byte between the host and a chip.
        memory_byte_j: of a byte from off-package memory.
    """

    unit_j: Floats
    relay_j: Floats
    link_byte_j: float
    host_byte_j: float
    memory_byte_j: float


@runtime_checkable
class KnowsEnergy(Protocol):
    """A target that may know what its work costs, and how large it is."""

    @property
    def energy(self) -> EnergyCosts | None:
        """Joules of what an inference does; None where the description does not say."""
        ...

    @property
    def package_mm2(self) -> float | None:
        """Area of all usable chips; None where the description does not say."""
        ...


def energy_of(target: object) -> EnergyCosts | None:
    """Joules of what an inference does on a target; None where it does not say."""
    return target.energy if isinstance(target, KnowsEnergy) else None


def area_of(target: object) -> float | None:
    """Square millimetres of all usable chips of a target; None where it does not say."""
    return target.package_mm2 if isinstance(target, KnowsEnergy) else None
