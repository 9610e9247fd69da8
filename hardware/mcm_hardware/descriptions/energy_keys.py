"""Keys of energy and area in descriptions of packages of chips; both tables may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.machines.package_limits import EnergyCosts
from mcm_hardware.chip.chip_spec import AreaCosts
from mcm_hardware.descriptions.target_schema import Key, Number

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
    {
        "energy.mac_pj",
        "energy.sram_byte_pj",
        "area.chip_mm2",
        "area.mac_mm2",
        "area.sram_mib_mm2",
    }
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
    """What values say of energy, by dotted path and without fault; None where they say nothing."""
    if "energy.mac_pj" not in values:
        return None

    def joules(key: str) -> float:
        return float(values.get(f"{ENERGY_TABLE}.{key}", 0.0)) * 1e-12

    return EnergyCosts(
        mac_j=joules("mac_pj"),
        sram_byte_j=joules("sram_byte_pj"),
        link_byte_j=joules("link_byte_pj"),
        host_byte_j=joules("host_byte_pj"),
        memory_byte_j=joules("memory_byte_pj"),
    )


def area_costs(values: Mapping[str, Any]) -> AreaCosts | None:
    """What values say of area; None where they say nothing."""
    given = {path: float(values[path]) for path in AREA_KEYS if path in values}
    if not given:
        return None
    return AreaCosts(**{path.removeprefix(f"{AREA_TABLE}."): v for path, v in given.items()})
