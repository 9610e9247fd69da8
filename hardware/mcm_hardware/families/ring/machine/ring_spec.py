"""The numbers of ring packages, in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcm_compiler.contracts.target import Forwarding, HostIo
from mcm_hardware.chip.chip_spec import PackageSpec

Switching = Literal["store_and_forward", "cut_through"]
"""Whether a chip that passes a tensor on has to have all of it before it begins."""


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
