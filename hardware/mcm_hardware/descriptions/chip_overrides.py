"""Chips that differ from `[chip]`, or are off: the `[[override]]` tables of a description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from mcm_compiler.text.toml_key_lines import KeyPath
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.package_schema import OVERRIDE_KEYS, OVERRIDE_TABLE
from mcm_hardware.descriptions.target_schema import Number


@dataclass(frozen=True)
class Override:
    """What is different about one chip.

    Attributes:
        off: it is not used.
        speed: factor on its rates.
        sram_mib: its memory, or None where it has what all have.
    """

    off: bool
    speed: float
    sram_mib: float | None


def read_overrides(
    reader: DescriptionReader, listed: object, num_chips: int | None
) -> dict[int, Override]:
    """Overrides by place in the package; faults are noted by `reader`.

    Args:
        reader: of the description.
        listed: what stands under `override`.
        num_chips: chips of the package, or None where that itself is at fault.
    """
    if not isinstance(listed, list):
        reader.wrong_type((OVERRIDE_TABLE,), listed, "tables [[override]]")
        return {}
    found: dict[int, Override] = {}
    last_off: KeyPath = (OVERRIDE_TABLE,)
    for index, table in enumerate(cast("list[Any]", listed)):
        at = (OVERRIDE_TABLE, index)
        if not isinstance(table, dict):
            reader.wrong_type(at, table, "a table [[override]]")
            continue
        given = cast("dict[str, Any]", table)
        values = reader.read(given, OVERRIDE_KEYS, at)
        override = Override(
            values.get("off", False), float(values.get("speed", 1.0)), values.get("sram_mib")
        )
        if override.off:
            last_off = (*at, "off")
            for key in ("sram_mib", "speed"):
                if key in given:
                    message = f"a chip that is off has no {key}"
                    reader.fault("MCM-T008", message, (*at, key), "leave one of the two out")
        elif not given.keys() - {"chips", "off"} and given.get("off", False) is False:
            hint = "give sram_mib, speed or off = true"
            reader.fault("MCM-T008", "this override changes nothing", at, hint)
        for place in _places(reader, values.get("chips"), (*at, "chips"), num_chips):
            if place in found:
                message = f"chip {place} is overridden twice"
                reader.fault("MCM-T008", message, (*at, "chips"))
            found[place] = override
    if num_chips is not None and sum(override.off for override in found.values()) == num_chips:
        message = f"all {num_chips} chips are off"
        reader.fault("MCM-T008", message, last_off, "leave at least one chip on")
    return found


def _places(
    reader: DescriptionReader, listed: object, at: KeyPath, num_chips: int | None
) -> list[int]:
    if not isinstance(listed, list):
        return []
    if not listed:
        reader.fault("MCM-T008", "this override names no chip", at, "such as chips = [3, 4]")
    last = 2**31 if num_chips is None else num_chips - 1
    rule = Number(0, last, whole=True)
    places: list[int] = []
    for index, place in enumerate(cast("list[Any]", listed)):
        path = (*at, index)
        if isinstance(place, int) and not isinstance(place, bool) and not 0 <= place <= last:
            shown = place if abs(place) < 10**9 else "..."
            message = f"there is no chip {shown}: the package has chips 0 to {last}"
            reader.fault("MCM-T005", message, path)
        elif reader.holds(path, place, rule):
            places.append(place)
    return places
