"""Limits of a package, and the energy that its parts take.

Energy is a sum over what an inference does, whatever the time that it takes; it is searched for
where that is the objective, and counted everywhere else. Static power is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from mcm_compiler.arrays.types import Bools, Floats
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine

HostIo = Literal["any", "ends"]
"""Where the host reaches the ring: at every chip, or only at the first and the last chip of the
package, each of which takes inputs in and gives outputs out."""

Forwarding = Literal["engine", "router"]
"""Part that passes on a tensor that its chip does not read. The compute engine does so with a copy
(a relay); the router takes no time of the chip and has buffers of its own."""


@dataclass(frozen=True)
class PackageLimits:
    """The numbers of a ring package that partitioning needs.

    Chip c reaches chip c+1 over link c; the ring runs one way, from chip 0 to the last.

    Attributes:
        num_chips: chips on the ring.
        sram_bytes: `[num_chips]`, SRAM of each chip.
        link_bytes_per_s: rate of each link.
        hop_latency_s: delay of one hop, the least of all links.
        host_io: see `HostIo`.
        host_bytes_per_s: rate between the host and each chip that it reaches.
        channel_slots: receive buffers per tensor (2 is double buffering).
        chip_speed: `[num_chips]`, clock of each chip relative to the one that the cost model
            speaks of; empty where all run at 1.
        stream_bytes_per_s: rate at which each chip reads weights that do not fit from
            off-package memory, once per inference; 0 where that is not possible, so that what
            does not fit is an error.
        buffer_alignment_bytes: buffers in SRAM start at multiples of this, so that each takes a
            multiple of it.
        stream_buffers: buffers that streamed weights pass through; with two, one is filled while
            the other is read. Estimates count them.
        activation_packing: space that estimates keep for the gaps of a memory plan, as a multiple
            of the peak of live bytes, at least 1. No proof looks at it.
        host_total_bytes_per_s: rate, each way, of the one channel between the host and all chips
            together, the *host's root*, which carries once per chip what several chips get from
            the host. 0 where there is none, so that chips do not hinder each other. Of pipelines
            side by side each has its part of the rate, see `first`.
        stream_total_bytes_per_s: likewise of the one channel from off-package memory.
        forwarding: see `Forwarding`.
        link_latency_s: delay of each link of the package, in order, those behind these chips among
            them where outputs leave over them; empty where links join these chips alone, and each
            delays `hop_latency_s`.
        host_latency_s: delay of the channels between the host and the chips that it reaches.
        cut_through: whether what crosses several links goes on as soon as its head is there.
    """

    num_chips: int
    sram_bytes: tuple[int, ...]
    link_bytes_per_s: float
    hop_latency_s: float
    host_io: HostIo
    host_bytes_per_s: float
    channel_slots: int = 2
    chip_speed: tuple[float, ...] = ()
    stream_bytes_per_s: float = 0.0
    buffer_alignment_bytes: int = 64
    stream_buffers: int = 2
    activation_packing: float = 1.25
    host_total_bytes_per_s: float = 0.0
    stream_total_bytes_per_s: float = 0.0
    forwarding: Forwarding = "engine"
    link_latency_s: tuple[float, ...] = ()
    host_latency_s: float = 0.0
    cut_through: bool = False

    @property
    def at_ends(self) -> bool:
        """True if the host reaches only the ends of the package."""
        return self.host_io == "ends"

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Delay of each link, as `link_latency_s` where that is not left out."""
        return self.link_latency_s or (self.hop_latency_s,) * (self.num_chips - 1)

    @property
    def last_chip(self) -> int:
        """The last chip of the package.

        Where the host reaches only the ends, what chips but the first give to the host leaves
        there, and what that chip reads enters there.
        """
        return len(self.latencies_s)

    def first(self, num_chips: int, pipelines: int = 1) -> PackageLimits:
        """The numbers of the first N chips alone, for one of equal pipelines.

        Of a channel to the host that all share, each has its part. R pipelines of period P that
        answer in turn give R inferences every P seconds. In P seconds the channel thus carries R
        times what one inference takes, and each pipeline uses a part of its rate. The package's
        seconds per inference, P / R, are never less than the channel's. Streamed weights are read
        once for all of them.

        Args:
            num_chips: chips of the pipeline.
            pipelines: that share the package.
        """
        delays = self.link_latency_s
        if self.at_ends and num_chips < self.num_chips:
            delays = self.latencies_s
        elif delays and not self.at_ends:
            # Of pipelines, each with links of its own, the slowest counts.
            shares = [delays[r * num_chips :][: num_chips - 1] for r in range(pipelines)]
            delays = tuple(max(link) for link in zip(*shares, strict=False))
        return replace(
            self,
            link_latency_s=delays,
            num_chips=num_chips,
            sram_bytes=self.sram_bytes[:num_chips],
            chip_speed=self.chip_speed[:num_chips],
            host_total_bytes_per_s=self.host_total_bytes_per_s / pipelines,
        )

    @property
    def host_root_bytes_per_s(self) -> float:
        """Rate of the host's root each way; infinite where there is none."""
        return self.host_total_bytes_per_s or float("inf")

    @property
    def stream_root_bytes_per_s(self) -> float:
        """Rate of the channel that all streamed weights share; infinite where there is none."""
        return self.stream_total_bytes_per_s or float("inf")


def machine_limits(machine: Machine) -> PackageLimits:
    """The numbers of any machine, for whoever does not look at its routes.

    Rates are those of the fastest channel of a kind, so that times from them are never too long.
    Where no channel joins two devices, links count as those to the host, and nothing crosses them.
    """
    ends, rates = machine.channel_ends, machine.channel_bytes_per_s

    def fastest(chosen: Bools) -> float:
        return float(rates[chosen].max(initial=0.0))

    at_device = ends >= 0
    between = at_device[:, 0] & at_device[:, 1]
    at_host = (ends[:, 0] == HOST) & at_device[:, 1] | (ends[:, 1] == HOST) & at_device[:, 0]
    off_package = (ends[:, 0] == OFF_PACKAGE) & at_device[:, 1]
    return PackageLimits(
        num_chips=machine.num_devices,
        sram_bytes=tuple(machine.memory_bytes.tolist()),
        link_bytes_per_s=fastest(between) or fastest(at_host),
        hop_latency_s=min(machine.channel_latency_s[between].tolist(), default=0.0),
        host_io="any",
        host_bytes_per_s=fastest(at_host),
        channel_slots=machine.channel_slots,
        chip_speed=tuple(machine.speed.tolist()),
        stream_bytes_per_s=fastest(off_package) if machine.streams else 0.0,
        buffer_alignment_bytes=machine.buffer_alignment_bytes,
        stream_buffers=machine.stream_buffers,
        activation_packing=machine.activation_packing,
    )


@dataclass(frozen=True)
class ChipWork:
    """Work of one inference on a chip, as far as it costs energy.

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
    """Energy of each part of a placement problem of N units and T tensors wherever it is.

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


@runtime_checkable
class KnowsEnergyOfChips(Protocol):
    """A target whose chips may differ in what their work costs."""

    def energy_on(self, chip: int) -> EnergyCosts | None:
        """Joules of what an inference does on a chip; None where the description does not say."""
        ...


def energy_on(target: object, chip: int) -> EnergyCosts | None:
    """Joules of what an inference does on a chip of a target; None where it does not say."""
    if isinstance(target, KnowsEnergyOfChips):
        return target.energy_on(chip)
    return energy_of(target)


def area_of(target: object) -> float | None:
    """Square millimetres of all usable chips of a target; None where it does not say."""
    return target.package_mm2 if isinstance(target, KnowsEnergy) else None
