"""Which keys a description of a ring package has, and which values they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STORAGE_TABLE = "storage_bits"
"""The one table with free keys: names of ONNX types."""

STORAGE_BITS = (1, 2, 4, 6, 8, 16, 32, 64, 128, 256)
"""Widths that an element may have in SRAM."""

OVERRIDE_TABLE = "override"
"""The array of tables for chips that differ from `[chip]`; its keys are `OVERRIDE_KEYS`."""

STREAM_TABLE = "off_package_memory"
"""The one table that may be left out."""


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
    """Any text."""


@dataclass(frozen=True)
class Flag:
    """True or false."""


@dataclass(frozen=True)
class Places:
    """A list of places of chips in the package, each 0 to `package.num_chips` - 1."""


Rule = Number | Choice | Text | Flag | Places


@dataclass(frozen=True)
class Key:
    """A key of the file.

    Attributes:
        rule: values that it takes.
        meaning: what it says, for the documentation.
        default: its value where it is left out; None where it may not be.
        otherwise: what holds where it is left out, in words, if that is no fixed value; such a
            key may be left out as well.
    """

    rule: Rule
    meaning: str
    default: str | float | bool | None = None
    otherwise: str = ""

    @property
    def required(self) -> bool:
        """Whether it must be given where its table is."""
        return self.default is None and not self.otherwise


_BANDWIDTH = Number(1e-6, 1e6)
_CLOCK = Number(1e-3, 1e5)
_LATENCY_US = Number(0.0, 1e6)
_SRAM_MIB = Number(2.0**-20, 2.0**20)

RING_KEYS: Mapping[str, Key] = {
    "family": Key(Choice(("ring",)), "which code reads the file"),
    "summary": Key(Text(), "the line in `mcmc targets`", default=""),
    "package.num_chips": Key(Number(1, 4096, whole=True), "chips of the package, also those off"),
    "package.host_io": Key(
        Choice(("any", "ends")),
        "where the host reaches the ring: at every chip, or at the first and last that are on",
    ),
    "package.channel_slots": Key(
        Number(1, 64, whole=True),
        "buffers per tensor at both ends of a link; 2 is double buffering",
    ),
    "package.spill": Key(
        Choice(("none", "stream")),
        "what becomes of weights that do not fit: an error, or they stay in off-package memory "
        "and are read anew for every inference",
        default="none",
    ),
    "chip.sram_mib": Key(
        _SRAM_MIB, "memory of one chip, for weights, activations and buffers together"
    ),
    "chip.sram_bandwidth_gb_per_s": Key(
        _BANDWIDTH, "between SRAM and the engines, reads and writes together"
    ),
    "chip.buffer_alignment_bytes": Key(
        Number(1, 2**20, whole=True, power_of_two=True), "buffers start at multiples of it"
    ),
    "chip.launch_overhead_ns": Key(
        Number(0.0, 1e9), "cost of starting one kernel; a fused group is one kernel"
    ),
    "chip.mac_array.rows": Key(
        Number(1, 65536, whole=True), "rows of the multiply-accumulate array"
    ),
    "chip.mac_array.cols": Key(Number(1, 65536, whole=True), "its columns"),
    "chip.mac_array.clock_mhz": Key(_CLOCK, "its clock"),
    "chip.mac_array.dataflow": Key(
        Choice(("output_stationary", "weight_stationary")),
        "what stays in the array: a tile of the result, or of the second operand",
        default="output_stationary",
    ),
    "chip.vector_unit.lanes": Key(
        Number(1, 2**20, whole=True),
        "lanes of the unit for all that is no matrix product, and for thin ones",
    ),
    "chip.vector_unit.clock_mhz": Key(_CLOCK, "its clock"),
    "link.bandwidth_gb_per_s": Key(_BANDWIDTH, "rate of one link"),
    "link.hop_latency_us": Key(
        _LATENCY_US, "delay of one hop; a chip that is off in between adds its hop"
    ),
    "link.switching": Key(
        Choice(("store_and_forward", "cut_through")),
        "whether a tensor that crosses several links has to arrive whole before it goes on",
        default="store_and_forward",
    ),
    "host.bandwidth_gb_per_s": Key(
        _BANDWIDTH, "rate between the host and each chip that it reaches, each way"
    ),
    "host.latency_us": Key(_LATENCY_US, "delay between the host and a chip"),
    "off_package_memory.bandwidth_gb_per_s": Key(
        _BANDWIDTH, "rate at which each chip reads weights from it"
    ),
    "off_package_memory.latency_us": Key(_LATENCY_US, "delay of such a read"),
}
"""Every key of the file by its dotted path, but for `OVERRIDE_KEYS`; units stand in the names."""

OVERRIDE_KEYS: Mapping[str, Key] = {
    "chips": Key(Places(), "places of the chips that this is about, counted from 0"),
    "sram_mib": Key(_SRAM_MIB, "their memory", otherwise="`chip.sram_mib`"),
    "speed": Key(
        Number(1e-3, 1e3),
        "factor on their clocks, SRAM bandwidth and launches; 0.5 is half as fast",
        default=1.0,
    ),
    "off": Key(Flag(), "true: they are not used, and tensors pass them by", default=False),
}
"""The keys of each `[[override]]`."""


def tables_of(keys: Iterable[str]) -> frozenset[str]:
    """Dotted paths of the tables that hold these keys."""
    return frozenset(
        ".".join(parts[:depth])
        for parts in (key.split(".") for key in keys)
        for depth in range(1, len(parts))
    )


@dataclass(frozen=True)
class DescriptionForm:
    """What the description files of one family look like, but for their keys.

    Attributes:
        subject: what is described, such as `a ring package`.
        tables: dotted paths of all tables.
        free_tables: those with free keys.
        arrays: names of arrays of tables.
        optional_tables: those that may be left out.
    """

    subject: str
    tables: frozenset[str]
    free_tables: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    optional_tables: frozenset[str] = frozenset()


RING_FORM = DescriptionForm(
    "a ring package",
    tables_of(RING_KEYS) | {STORAGE_TABLE},
    free_tables=frozenset({STORAGE_TABLE}),
    arrays=frozenset({OVERRIDE_TABLE}),
    optional_tables=frozenset({STREAM_TABLE}),
)
"""The form of a description of a ring package."""

UNITS: Mapping[str, str] = {
    "_mib": "MiB (2^20 bytes)",
    "_gb_per_s": "10^9 bytes per second",
    "_gbit_per_s": "10^9 bits per second",
    "_tflop_per_s": "10^12 operations per second",
    "_bytes": "bytes",
    "_ns": "nanoseconds",
    "_us": "microseconds",
    "_mhz": "MHz",
}
"""What the endings of keys mean."""


def unit_of(key: str) -> str:
    """The unit in the name of a key; `""` where it has none."""
    return next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
