"""Which keys a description of a ring package has, and which values they take."""

from __future__ import annotations

from dataclasses import dataclass

STORAGE_TABLE = "storage_bits"
"""The one table with free keys: names of ONNX types."""

STORAGE_BITS = (1, 2, 4, 6, 8, 16, 32, 64, 128, 256)
"""Widths that an element may have in SRAM."""


@dataclass(frozen=True)
class Number:
    """A number in a closed range.

    Attributes:
        low: least value.
        high: greatest value that makes sense for a package of chips.
        whole: only integers.
        power_of_two: only powers of two.
    """

    low: float
    high: float
    whole: bool = False
    power_of_two: bool = False


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """Any text; may be left out."""


Rule = Number | Choice | Text

_BANDWIDTH = Number(1e-6, 1e6)
_CLOCK = Number(1e-3, 1e5)
_LATENCY_US = Number(0.0, 1e6)

RING_KEYS: dict[str, Rule] = {
    "family": Choice(("ring",)),
    "summary": Text(),
    "package.num_chips": Number(1, 4096, whole=True),
    "package.host_io": Choice(("any", "ends")),
    "package.channel_slots": Number(1, 64, whole=True),
    "chip.sram_mib": Number(2.0**-20, 2.0**20),
    "chip.sram_bandwidth_gb_per_s": _BANDWIDTH,
    "chip.buffer_alignment_bytes": Number(1, 2**20, whole=True, power_of_two=True),
    "chip.launch_overhead_ns": Number(0.0, 1e9),
    "chip.mac_array.rows": Number(1, 65536, whole=True),
    "chip.mac_array.cols": Number(1, 65536, whole=True),
    "chip.mac_array.clock_mhz": _CLOCK,
    "chip.vector_unit.lanes": Number(1, 2**20, whole=True),
    "chip.vector_unit.clock_mhz": _CLOCK,
    "link.bandwidth_gb_per_s": _BANDWIDTH,
    "link.hop_latency_us": _LATENCY_US,
    "host.bandwidth_gb_per_s": _BANDWIDTH,
    "host.latency_us": _LATENCY_US,
}
"""Every key of the file by its dotted path; units stand in the names."""

TABLES = frozenset(
    {
        STORAGE_TABLE,
        *(
            ".".join(parts[:depth])
            for parts in (key.split(".") for key in RING_KEYS)
            for depth in range(1, len(parts))
        ),
    }
)
"""Dotted paths of all tables."""
