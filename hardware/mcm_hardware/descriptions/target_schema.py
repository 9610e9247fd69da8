"""Parts of target descriptions: keys with rules, tables, units in names of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

STORAGE_TABLE = "storage_bits"
"""The one table with free keys: names of ONNX types."""

STORAGE_BITS = (1, 2, 4, 6, 8, 16, 32, 64, 128, 256)
"""Widths that an element may have in SRAM."""

CHIP_TABLE = "chip"
"""The table of the chip, or the array of tables of its kinds, which have `KIND_KEYS` as well."""

PLACE_TABLE = "place"
"""The table with the chips of each kind, by names of kinds."""


@dataclass(frozen=True)
class Number:
    """A number in a closed range.

    Attributes:
        low: least value.
        high: greatest value that makes sense for a package of chips.
        whole: only integers.
        power_of_two: only powers of two.
        better: whether a package with more, or with less, of it is never worse; empty where neither
            holds.
    """

    low: float
    high: float
    whole: bool = False
    power_of_two: bool = False
    better: Literal["", "more", "less"] = ""


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


@dataclass(frozen=True)
class Names:
    """A list of texts.

    Attributes:
        of: what they name, such as `ops`.
    """

    of: str


@dataclass(frozen=True)
class Listed:
    """A list of values that keep one rule.

    Attributes:
        each: the rule of each value.
        least: the smallest length.
        most: the largest length.
    """

    each: Rule
    least: int
    most: int


Rule = Number | Choice | Text | Flag | Places | Names | Listed


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
        """True if it must be given where its table is."""
        return self.default is None and not self.otherwise


BANDWIDTH = Number(1e-6, 1e6, better="more")
"""Rates, in 10^9 bytes, 10^9 bits or 10^12 operations per second."""

LATENCY_US = Number(0.0, 1e6, better="less")
"""Delays, in microseconds."""


def ordered(keys: Mapping[str, Key]) -> dict[str, bool]:
    """See `mcm_compiler.contracts.target.OrdersKeys`."""
    rules = {path: key.rule for path, key in keys.items() if isinstance(key.rule, Number)}
    return {path: rule.better == "more" for path, rule in rules.items() if rule.better}


COST_KEYS: Mapping[str, Key] = {
    "cost.model": Key(
        Text(),
        "cost model by name, as listed by `mcmc costs`; paths in it are relative to the file",
        otherwise="the target's own",
    )
}
"""Keys that descriptions of all families have."""


def family_keys(family: str) -> dict[str, Key]:
    """Keys at the top of the descriptions of a family."""
    return {
        "family": Key(Choice((family,)), "which code reads the file"),
        "summary": Key(Text(), "the line in `mcmc targets`", default=""),
    }


def tables_of(keys: Iterable[str]) -> frozenset[str]:
    """Dotted paths of the tables that hold these keys."""
    return frozenset(
        ".".join(parts[:depth])
        for parts in (key.split(".") for key in keys)
        for depth in range(1, len(parts))
    )


@dataclass(frozen=True)
class DescriptionForm:
    """Form of the description files of one family.

    Attributes:
        subject: what is described, such as `a ring package`.
        keys: by table and name.
        free_tables: dotted paths of tables with free keys.
        arrays: names of arrays of tables.
        optional_tables: those that may be left out.
        part: what an entry of an array or of a free table is.
        kinds: further keys of a table `[[chip]]`; empty where all chips are of one kind.
    """

    subject: str
    keys: Mapping[str, Key]
    free_tables: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    optional_tables: frozenset[str] = frozenset()
    part: str = "an override"
    kinds: Mapping[str, Key] = field(default_factory=dict[str, Key])

    @cached_property
    def tables(self) -> frozenset[str]:
        """Dotted paths of all tables."""
        return tables_of(self.keys) | self.free_tables


UNITS: Mapping[str, str] = {
    "_kib": "KiB (2^10 bytes)",
    "_mib": "MiB (2^20 bytes)",
    "_gb_per_s": "10^9 bytes per second",
    "_gbit_per_s": "10^9 bits per second",
    "_tflop_per_s": "10^12 operations per second",
    "_bytes": "bytes",
    "_ns": "nanoseconds",
    "_us": "microseconds",
    "_mhz": "MHz",
    "_pj": "picojoules",
    "_mm2": "square millimetres",
}
"""Meaning of the endings of keys."""


def unit_of(key: str) -> str:
    """The unit in the name of a key; `""` where it has none."""
    return next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
