"""The numbers of a ring package, and its machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.package_limits import Forwarding, HostIo, PackageLimits
from mcm_compiler.machines.ring_machine import ring_of
from mcm_hardware.chip.chip_spec import ACTIVATION_PACKING, STREAM_BUFFERS, PackageSpec

Switching = Literal["store_and_forward", "cut_through"]
"""A chip passes a tensor on once it has all of it, or part by part."""


@dataclass(frozen=True, kw_only=True)
class RingSpec(PackageSpec):
    """A package of chips on a one-way ring; chips are numbered along it.

    Attributes:
        link_bytes_per_s: rate of each link; link c leads from chip c to chip c + 1.
        hop_latency_s: `[num_chips - 1]`, delay of each link; a switched-off chip in between adds
            its hop.
        switching: see `Switching`.
        host_io: where the host reaches the ring.
        host_total_bytes_per_s: rate, each way, of the one channel between the host and all chips
            together; 0 where chips do not share one.
        stream_total_bytes_per_s: likewise of all reads from off-package memory together.
        forwarding: who passes on what a chip does not want itself.
    """

    link_bytes_per_s: float
    hop_latency_s: tuple[float, ...]
    switching: Switching
    host_io: HostIo
    host_total_bytes_per_s: float = 0.0
    stream_total_bytes_per_s: float = 0.0
    forwarding: Forwarding = "engine"

    @property
    def limits(self) -> PackageLimits:
        """The numbers that partitioning needs, and that the machine is made from."""
        return PackageLimits(
            num_chips=self.num_chips,
            sram_bytes=tuple(chip.sram_bytes for chip in self.chips),
            link_bytes_per_s=self.link_bytes_per_s,
            hop_latency_s=min(self.hop_latency_s, default=0.0),
            # Two chips are both ends.
            host_io=self.host_io if self.num_chips > 2 else "any",
            host_bytes_per_s=self.host_bytes_per_s,
            channel_slots=self.channel_slots,
            chip_speed=tuple(float(chip.speed) for chip in self.chips),
            stream_bytes_per_s=self.stream_bytes_per_s,
            buffer_alignment_bytes=self.reference.alignment_bytes,
            stream_buffers=STREAM_BUFFERS,
            activation_packing=ACTIVATION_PACKING,
            host_total_bytes_per_s=self.host_total_bytes_per_s,
            stream_total_bytes_per_s=self.stream_total_bytes_per_s,
            forwarding=self.forwarding,
            link_latency_s=self.hop_latency_s,
            host_latency_s=self.host_latency_s,
            cut_through=self.switching == "cut_through",
        )


def ring_machine(spec: RingSpec) -> Machine:
    """The machine of a ring package; see `ring_of`."""
    return ring_of(spec.limits, spec.stream_latency_s)
