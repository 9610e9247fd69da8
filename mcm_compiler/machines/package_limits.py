"""The numbers of a package of chips that partitioning needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mcm_compiler.arrays.types import Bools
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine

HostIo = Literal["any", "ends"]
"""Where the host reaches the ring: at every chip, or only at the first and the last one."""

RING = "ring"
"""The family of machines that `PackageLimits` describes whole."""

Forwarding = Literal["engine", "router"]
"""Who passes a tensor on that a chip does not want itself: its compute engine, with a copy (a
relay), or its router, which takes no time of the chip and has buffers of its own."""

Routing = Literal["strict", "relay"]
"""How long dependencies are ruled: `strict` is the paper's chip-triangle rule on the graph as it
is after cloning (MCM, Eq. 4); `relay` passes a tensor on from neighbour to neighbour."""


@dataclass(frozen=True)
class PackageLimits:
    """The numbers of a ring package that partitioning needs.

    Chip c reaches chip c+1 over link c; the ring runs one way, from chip 0 to the last.

    Attributes:
        num_chips: chips on the ring.
        sram_bytes: `[num_chips]`, SRAM of each chip.
        link_bytes_per_s: rate of each link.
        hop_latency_s: delay of one hop.
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
        activation_packing: room that estimates keep for the gaps of a memory plan, as a multiple
            of the peak of live bytes, at least 1. No proof looks at it.
        host_total_bytes_per_s: rate, each way, of the one channel between the host and all chips
            together, the *host's root*, which carries once per chip what several chips get from
            the host; 0 where there is none, so that chips do not hinder each other. Of pipelines
            side by side each has its part of the rate, see `first`.
        stream_total_bytes_per_s: likewise of the one channel from off-package memory.
        forwarding: see `Forwarding`.
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

    def first(self, num_chips: int, pipelines: int = 1) -> PackageLimits:
        """The numbers of the first so many chips alone, for one of equal pipelines.

        Of a channel that all pipelines share, each has its part. R pipelines of period P that
        answer in turn give R inferences every P seconds, so that the channel carries R times what
        one inference takes in P, and one pipeline what its own takes at a part of the rate: the
        package's seconds per inference, P / R, are never less than the channel's.

        Args:
            num_chips: chips of the pipeline.
            pipelines: that share the package.
        """
        return replace(
            self,
            num_chips=num_chips,
            sram_bytes=self.sram_bytes[:num_chips],
            chip_speed=self.chip_speed[:num_chips],
            host_total_bytes_per_s=self.host_total_bytes_per_s / pipelines,
            stream_total_bytes_per_s=self.stream_total_bytes_per_s / pipelines,
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
        link_bytes_per_s=fastest(between),
        hop_latency_s=float(machine.channel_latency_s[between].min(initial=0.0)),
        host_io="any",
        host_bytes_per_s=fastest(at_host),
        channel_slots=machine.channel_slots,
        chip_speed=tuple(machine.speed.tolist()),
        stream_bytes_per_s=fastest(off_package) if machine.streams else 0.0,
        buffer_alignment_bytes=machine.buffer_alignment_bytes,
        stream_buffers=machine.stream_buffers,
        activation_packing=machine.activation_packing,
    )
