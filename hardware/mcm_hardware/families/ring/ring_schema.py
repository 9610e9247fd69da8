"""Which keys a description of a ring package has besides those of all packages of chips."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_hardware.descriptions.package_schema import (
    BANDWIDTH,
    LATENCY_US,
    PackageForm,
    package_form,
)
from mcm_hardware.descriptions.target_schema import Choice, Key, Number

_KEYS: Mapping[str, Key] = {
    "package.num_chips": Key(Number(1, 4096, whole=True), "chips of the package, also those off"),
    "package.host_io": Key(
        Choice(("any", "ends")),
        "where the host reaches the ring: at every chip, or at the first and last that are on; "
        "over these, inputs of inner chips enter at the first, and outputs leave at the last",
    ),
    "link.bandwidth_gb_per_s": Key(BANDWIDTH, "rate of one link"),
    "link.hop_latency_us": Key(
        LATENCY_US, "delay of one hop; a chip that is off in between adds its hop"
    ),
    "link.switching": Key(
        Choice(("store_and_forward", "cut_through")),
        "whether a tensor that crosses several links has to arrive whole before it goes on",
        default="store_and_forward",
    ),
    "link.forwarding": Key(
        Choice(("engine", "router")),
        "who passes on what a chip does not want itself: its compute engine, with a copy, or "
        "its router, which takes no time and no memory of the chip",
        default="engine",
    ),
    "host.total_bandwidth_gb_per_s": Key(
        BANDWIDTH,
        "rate, each way, of one channel that everything between the host and all chips "
        "together crosses; what several chips read crosses it once for each",
        otherwise="they share none",
    ),
    "off_package_memory.total_bandwidth_gb_per_s": Key(
        BANDWIDTH,
        "rate of one channel that the reads of all chips together cross",
        otherwise="they share none",
    ),
}


def ring_form(chip: Mapping[str, Key] | None = None) -> PackageForm:
    """The form of a description of a ring package.

    Args:
        chip: keys of its chips where they are no arrays.
    """
    return package_form("ring", "a ring package", _KEYS, chip)


RING = ring_form()
"""The form where chips are arrays."""
