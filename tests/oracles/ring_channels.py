"""What is counted of each channel of a ring, by what the channels are for."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE


class RingChannels(NamedTuple):
    """Figures of channels.

    Attributes:
        links: `[D - 1]`, of the link behind each chip but the last of the package.
        host_in: `[D]`, of the channel from the host to each chip.
        host_out: `[D]`, of the one back.
        streams: `[D]` from off-package memory, or empty.
        roots: of the channels that all chips share, into the host's end of its channels and back.
    """

    links: Any
    host_in: Any
    host_out: Any
    streams: Any
    roots: Any


def ring_channels(problem: PartitionProblem, figures: Any) -> RingChannels:
    """`figures[L]` of the channels of a problem's ring."""
    source, target = problem.machine.channel_ends.T
    return RingChannels(
        figures[(source >= 0) & (target >= 0)],
        figures[(source == HOST) & (target >= 0)],
        figures[(source >= 0) & (target == HOST)],
        figures[(source == OFF_PACKAGE) & (target >= 0)],
        figures[(source == HOST_ROOT) | (target == HOST_ROOT)],
    )
