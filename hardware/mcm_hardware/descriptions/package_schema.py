"""Which keys the descriptions of packages of chips have in common, whatever connects the chips.

A family adds its own keys to them (`package_form`): how many chips there are, and their links.

Keys of energy and area in descriptions of packages of chips; both tables may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcm_compiler.machines.package_limits import EnergyCosts
from mcm_hardware.chip.chip_spec import AreaCosts
from mcm_hardware.descriptions.support_keys import support_keys
from mcm_hardware.descriptions.target_schema import (
    BANDWIDTH,
    COST_KEYS,
    LATENCY_US,
    PLACE_TABLE,
    STORAGE_TABLE,
    Choice,
    DescriptionForm,
    Flag,
    Key,
    Number,
    Places,
    Text,
    family_keys,
    tables_of,
)

ENERGY_TABLE = "energy"
AREA_TABLE = "area"

_PICOJOULES = Number(0.0, 1e9)
_MM2 = Number(0.0, 1e6)

ENERGY_KEYS: Mapping[str, Key] = {
    "energy.mac_pj": Key(
        _PICOJOULES, "energy of one multiply-accumulate; any other operation counts as half of one"
    ),
    "energy.sram_byte_pj": Key(_PICOJOULES, "of a byte that is read from or written to SRAM"),
    "energy.link_byte_pj": Key(
        _PICOJOULES, "of a byte on one link; over several links it counts once for each"
    ),
    "energy.host_byte_pj": Key(_PICOJOULES, "of a byte between the host and a chip"),
    "energy.memory_byte_pj": Key(
        _PICOJOULES,
        "of a byte from off-package memory",
        otherwise="none, and required where there is off-package memory",
    ),
}
"""Keys of the table `[energy]`."""

AREA_KEYS: Mapping[str, Key] = {
    "area.chip_mm2": Key(
        _MM2, "area of a chip, or the rest of it without the parts below", otherwise="0"
    ),
    "area.mac_mm2": Key(_MM2, "area of one multiply-accumulate unit of a chip", otherwise="0"),
    "area.sram_mib_mm2": Key(_MM2, "area of one MiB of a chip's SRAM", otherwise="0"),
    "area.link_mm2": Key(_MM2, "area of both ends of one link between two chips", otherwise="0"),
}
"""Keys of the table `[area]`."""


KEYS_OF_CHIPS = frozenset(
    {"energy.mac_pj", "energy.sram_byte_pj", "area.chip_mm2", "area.mac_mm2", "area.sram_mib_mm2"}
)
"""Keys of both tables that are about chips; the others are about links and ports."""


def of_kind(values: Mapping[str, Any], kind: Mapping[str, Any]) -> dict[str, Any]:
    """The values of both tables for one kind of chip.

    Args:
        values: of the description, by dotted path.
        kind: of the kind, by dotted path from `chip`; its own win.
    """
    own = {path: kind[f"chip.{path}"] for path in KEYS_OF_CHIPS if f"chip.{path}" in kind}
    return {**values, **own}


def energy_costs(values: Mapping[str, Any]) -> EnergyCosts | None:
    """Energy from values by dotted path without faults; None where they have no key of it."""
    if "energy.mac_pj" not in values:
        return None
    fields = {path: path.removeprefix(f"{ENERGY_TABLE}.") for path in ENERGY_KEYS}
    return EnergyCosts(
        **{
            f"{field.removesuffix('_pj')}_j": float(values.get(path, 0.0)) * 1e-12
            for path, field in fields.items()
        }
    )


def area_costs(values: Mapping[str, Any]) -> AreaCosts | None:
    """Area from values; None where they have no key of it."""
    given = {path: float(values[path]) for path in AREA_KEYS if path in values}
    if not given:
        return None
    return AreaCosts(**{path.removeprefix(f"{AREA_TABLE}."): v for path, v in given.items()})


OVERRIDE_TABLE = "override"
"""The array of tables for chips that differ from `[chip]`; its keys are `OVERRIDE_KEYS`."""

STREAM_TABLE = "off_package_memory"
"""The table of off-package memory, which may be left out."""

_CLOCK = Number(1e-3, 1e5, better="more")
_SRAM_MIB = Number(2.0**-20, 2.0**20, better="more")
_SIDE = Number(1, 65536, whole=True, better="more")

PACKAGE_KEYS: Mapping[str, Key] = {
    "package.channel_slots": Key(
        Number(1, 64, whole=True),
        "buffers per tensor at both ends of a link; 2 is double buffering",
    ),
    "package.spill": Key(
        Choice(("none", "stream")),
        "what becomes of weights that do not fit: an error, or they stay in off-package memory "
        "and are read again for every inference",
        default="none",
    ),
    "package.device": Key(
        Text(), "device that runs the models of chips for `mcmc measure`", otherwise="none"
    ),
}
"""Keys of the table `[package]`; a family has more."""

CHIP_KEYS: Mapping[str, Key] = {
    "chip.kind": Key(
        Text(),
        "what a chip is: `array`, which has the keys below, or another kind that the family can "
        "hold, such as `fabric`, which has keys of its own",
        default="array",
    ),
    "chip.sram_mib": Key(
        _SRAM_MIB, "memory of one chip, for weights, activations and buffers together"
    ),
    "chip.sram_bandwidth_gb_per_s": Key(
        BANDWIDTH, "between SRAM and the engines, reads and writes together"
    ),
    "chip.buffer_alignment_bytes": Key(
        Number(1, 2**20, whole=True, power_of_two=True), "buffers start at multiples of it"
    ),
    "chip.launch_overhead_ns": Key(
        Number(0.0, 1e9, better="less"), "cost of starting one kernel; a fused group is one kernel"
    ),
    "chip.mac_array.rows": Key(_SIDE, "rows of the multiply-accumulate array"),
    "chip.mac_array.cols": Key(_SIDE, "its columns"),
    "chip.mac_array.clock_mhz": Key(_CLOCK, "its clock"),
    "chip.mac_array.dataflow": Key(
        Choice(("output_stationary", "weight_stationary")),
        "what stays in the array: a tile of the result, or of the second operand",
        default="output_stationary",
    ),
    "chip.vector_unit.lanes": Key(
        Number(1, 2**20, whole=True, better="more"),
        "lanes of the unit for all that is no matrix product, and for thin ones",
    ),
    "chip.vector_unit.clock_mhz": Key(_CLOCK, "its clock"),
    "chip.weight_unpacking": Key(
        Choice(("load", "lanes", "ahead")),
        "where weights of a few bits are unpacked: on their way to the engines (costs nothing), "
        "by the vector unit in every step, or once, so that SRAM holds them unpacked",
        default="load",
    ),
}
"""Keys of the table `[chip]`."""

KIND_KEYS: Mapping[str, Key] = {
    "chip.name": Key(Text(), "name of the kind"),
    "chip.like": Key(
        Text(),
        "another kind, whose numbers hold where this one gives none",
        otherwise="none: all required keys are given",
    ),
    **{
        f"chip.{path}": replace(key, otherwise=f"`{path}`")
        for path, key in {**ENERGY_KEYS, **AREA_KEYS}.items()
        if path in KEYS_OF_CHIPS
    },
}
"""Keys of a table `[[chip]]` besides those of `[chip]`, in packages with kinds of chips."""

PORT_KEYS: Mapping[str, Key] = {
    "host.bandwidth_gb_per_s": Key(
        BANDWIDTH, "rate between the host and each chip that it reaches, each way"
    ),
    "host.latency_us": Key(LATENCY_US, "delay between the host and a chip"),
    "off_package_memory.bandwidth_gb_per_s": Key(
        BANDWIDTH, "rate at which each chip reads weights from it"
    ),
    "off_package_memory.latency_us": Key(LATENCY_US, "delay of such a read"),
}
"""Keys of what is outside the package: `[host]` and `[off_package_memory]`."""

OVERRIDE_KEYS: Mapping[str, Key] = {
    "chips": Key(
        Places(), 'the chips that this is about, by numbers from 0 and ranges such as `"3-5"`'
    ),
    "sram_mib": Key(_SRAM_MIB, "their memory", otherwise="`chip.sram_mib`"),
    "speed": Key(
        Number(1e-3, 1e3),
        "factor on their clocks, SRAM bandwidth and launches; 0.5 is half as fast",
        default=1.0,
    ),
    "off": Key(Flag(), "true: they are not used, and tensors pass them by", default=False),
}
"""The keys of each `[[override]]`."""


SWITCHING = Key(
    Choice(("store_and_forward", "cut_through")),
    "whether a tensor that crosses several links has to arrive whole before it goes on",
    default="store_and_forward",
)
"""The key `link.switching` of families whose tensors cross several links."""

HOST_TOTAL = Key(
    BANDWIDTH,
    "rate, each way, of one channel that everything between the host and all chips "
    "together crosses; what several chips read crosses it once for each",
    otherwise="they share none",
)
"""The key `host.total_bandwidth_gb_per_s`."""

STREAM_TOTAL = Key(
    BANDWIDTH,
    "rate of one channel that the reads of all chips together cross",
    otherwise="they share none",
)
"""The key `off_package_memory.total_bandwidth_gb_per_s`."""

PackageForm = DescriptionForm
"""The form of descriptions of packages, whose overrides have `OVERRIDE_KEYS`."""


def package_form(
    family: str,
    subject: str,
    own: Mapping[str, Key],
    chip: Mapping[str, Key] | None = None,
    *,
    kinds: bool = False,
) -> PackageForm:
    """The form of a family's descriptions.

    Args:
        family: value of the key `family`.
        subject: what is described, such as `a ring package`.
        own: the keys that this family alone has, by dotted path.
        chip: keys of a chip of another kind, which holds its weights itself and runs all ops; None
            for arrays.
        kinds: whether chips may be of several kinds, in tables `[[chip]]` and `[place]`.
    """
    inside = {path: key for path, key in own.items() if path.startswith("package.")}
    ports = {path: key for path, key in own.items() if tables_of([path]) <= tables_of(PORT_KEYS)}
    links = {path: key for path, key in own.items() if path not in inside | ports}
    keys = {
        **family_keys(family),
        **inside,
        **PACKAGE_KEYS,
        **(CHIP_KEYS if chip is None else {"chip.kind": CHIP_KEYS["chip.kind"], **chip}),
        **links,
        **PORT_KEYS,
        **ports,
        **ENERGY_KEYS,
        **AREA_KEYS,
        **(support_keys("chip", "chips") if chip is None else {}),
        **COST_KEYS,
    }
    if chip is not None:
        streams = ("package.spill", f"{STREAM_TABLE}.")
        keys = {path: key for path, key in keys.items() if not path.startswith(streams)}
    return PackageForm(
        subject,
        keys,
        free_tables=frozenset({STORAGE_TABLE, *([PLACE_TABLE] if kinds else [])}),
        arrays=frozenset({OVERRIDE_TABLE}),
        optional_tables=frozenset({STREAM_TABLE, ENERGY_TABLE, AREA_TABLE} & tables_of(keys)),
        kinds=KIND_KEYS if kinds else {},
    )
