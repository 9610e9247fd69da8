"""From the TOML description of a package of chips to the numbers that all families have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcm_compiler.diagnostics import quote
from mcm_compiler.text.toml_description import KeyPath
from mcm_hardware.chip.chip_spec import ChipSpec, KindOfChip, MacArray, VectorUnit
from mcm_hardware.descriptions.chip_kinds import ARRAY, KIND_KEY, ChipKind
from mcm_hardware.descriptions.chip_tables import ChipTable, read_chips, read_places
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.package_schema import (
    AREA_TABLE,
    ENERGY_TABLE,
    OVERRIDE_KEYS,
    OVERRIDE_TABLE,
    STREAM_TABLE,
    PackageForm,
    area_costs,
    energy_costs,
    of_kind,
)
from mcm_hardware.descriptions.support_keys import read_support, shared_support
from mcm_hardware.descriptions.target_schema import CHIP_TABLE, PLACE_TABLE
from mcm_hardware.tensors.storage_widths import StorageWidths

if TYPE_CHECKING:
    from mcm_hardware.chip.op_support import OpSupport


@dataclass(frozen=True)
class Override:
    """Differences of one chip.

    Attributes:
        off: it is not used.
        speed: factor on its rates.
        sram_mib: its memory, or None where it has what all have.
    """

    off: bool
    speed: float
    sram_mib: float | None


Refused = tuple[str, str, str]
"""A key that overrides of a package may not have, or not as true; message and hint."""


def read_overrides(
    reader: DescriptionReader, num_chips: int | None, refused: Sequence[Refused] = ()
) -> dict[int, Override]:
    """Overrides by place in the package; faults are noted by `reader`.

    Args:
        reader: of the description.
        num_chips: chips of the package, or None where that itself is at fault.
        refused: see `Refused`.
    """
    found: dict[int, Override] = {}
    last_off: KeyPath = (OVERRIDE_TABLE,)
    words = ("tables [[override]]", "a table [[override]]")
    for at, given in reader.tables(OVERRIDE_TABLE, *words):
        values = reader.read(given, OVERRIDE_KEYS, at)
        override = Override(
            values.get("off", False), float(values.get("speed", 1.0)), values.get("sram_mib")
        )
        for key, message, hint in refused:
            if key in given and (key != "off" or override.off):
                reader.fault("MCM-T008", message, (*at, key), hint)
        if override.off:
            last_off = (*at, "off")
            for key in ("sram_mib", "speed"):
                if key in given:
                    message = f"a chip that is off has no {key}"
                    reader.fault("MCM-T008", message, (*at, key), "leave one of the two out")
        elif not given.keys() - {"chips", "off"} and given.get("off", False) is False:
            hint = "give sram_mib, speed or off = true"
            reader.fault("MCM-T008", "this override changes nothing", at, hint)
        chips = values.get("chips", ())
        for place, _ in read_chips(reader, chips, (*at, "chips"), num_chips):
            if place in found:
                message = f"chip {place} is overridden twice"
                reader.fault("MCM-T008", message, (*at, "chips"))
            found[place] = override
    if num_chips is not None and sum(override.off for override in found.values()) == num_chips:
        message = f"all {num_chips} chips are off"
        reader.fault("MCM-T008", message, last_off, "leave at least one chip on")
    return found


ALIGNMENT = "chip.buffer_alignment_bytes"


class PackageFile:
    """A description that is read by the form of its family.

    What is wrong is collected. A family may add what it finds (`reader.fault`) before it asks for
    `common`, which raises all of it.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description.
        form: what descriptions of the family look like, with chips of this kind.
        kind: of the chips; None for arrays.

    Attributes:
        data: the file.
        values: by dotted path, defaults filled in; what is at fault is missing.
        reader: of the description.

    Raises:
        CompileError: MCM-T001 if the text is not TOML.
    """

    def __init__(
        self, name: str, text: str, form: PackageForm, kind: ChipKind | None = None
    ) -> None:
        self.reader = DescriptionReader(name, text, form)
        self.data = self.reader.description
        self.values = self.reader.values
        self._storage = self.reader.read_storage(self.data.data)
        self._kind = kind
        if kind is not None:
            kind.check(self.reader, self.values)
        elif self.values.get(KIND_KEY, ARRAY) != ARRAY:
            message = f"{form.subject} holds no chips of the kind '{self.values[KIND_KEY]}'"
            self.reader.fault("MCM-T008", message, ("chip", "kind"), f'kind = "{ARRAY}"')

    def number(self, path: str, unit: float) -> float:
        """The number at a dotted path in SI units; 0 where its table is left out."""
        return self.reader.number(path, unit)

    def common(self, num_chips: int | None, *, all_on: bool = False) -> dict[str, Any]:
        """The fields of a `PackageSpec`, by name.

        Args:
            num_chips: chips of the package, also those off; None where what says so is at fault.
            all_on: whether a chip that is off is a fault, since routes need all of them.

        Raises:
            CompileError: with one diagnostic per fault. MCM-T002 unknown key, MCM-T003 missing
                key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T006 unknown storage
                or element type, MCM-T007 more faults than are listed, MCM-T008 contradiction,
                MCM-T016 unknown op.
            ValueError: if `num_chips` is None, and nothing is at fault.
        """
        refused: list[Refused] = []
        if all_on:
            message = f"{self.reader.form.subject} has no way around a chip that is off"
            refused.append(("off", message, "leave `off` out, or describe a smaller package"))
        if self._kind is not None:
            message = f"chips of the kind '{self.values[KIND_KEY]}' are all alike"
            refused += [(key, message, "leave it out") for key in ("speed", "sram_mib")]
        overrides = read_overrides(self.reader, num_chips, refused)
        self._check_spill()
        self._check_energy()
        kinds, kind_of = self._kinds(num_chips)
        support = shared_support([kind.support for kind in kinds])
        if self._kind is None and not kinds:
            support = read_support(self.reader, self.values, "chip")
        self.reader.refuse()
        if num_chips is None:
            raise ValueError("the number of chips is not known, though nothing is at fault")
        reference = kinds[0].chip if kinds else self._reference(self.values)

        def chip_at(place: int) -> ChipSpec:
            override, chip = overrides.get(place), reference
            if kinds:
                chip = kinds[kind_of[place]].chip
            if override is None:
                return chip
            mib = override.sram_mib
            sram_bytes = chip.sram_bytes if mib is None else _sram_bytes(mib)
            return replace(chip, sram_bytes=sram_bytes, speed=override.speed)

        on = [p for p in range(num_chips) if p not in overrides or not overrides[p].off]
        return {
            "summary": self.values["summary"],
            "reference": reference,
            "chips": tuple(chip_at(place) for place in on),
            "physical": tuple(on),
            "host_bytes_per_s": self.number("host.bandwidth_gb_per_s", 1e9),
            "host_latency_s": self.number("host.latency_us", 1e-6),
            "channel_slots": self.values["package.channel_slots"],
            "stream_bytes_per_s": self.number("off_package_memory.bandwidth_gb_per_s", 1e9),
            "stream_latency_s": self.number("off_package_memory.latency_us", 1e-6),
            "support": support,
            "energy": kinds[0].energy if kinds else energy_costs(self.values),
            "area": kinds[0].area if kinds else area_costs(self.values),
            "kinds": kinds,
            "kind_of": tuple(kind_of[place] for place in on) if kinds else (),
        }

    def _reference(self, values: Mapping[str, Any]) -> ChipSpec:
        """The chip of values without fault."""
        if self._kind is not None:
            return self._kind.chip(values, StorageWidths(self._storage))

        def number(path: str, unit: float) -> float:
            return float(values[path]) * unit

        return ChipSpec(
            sram_bytes=_sram_bytes(values["chip.sram_mib"]),
            sram_bytes_per_s=number("chip.sram_bandwidth_gb_per_s", 1e9),
            alignment_bytes=values[ALIGNMENT],
            launch_s=number("chip.launch_overhead_ns", 1e-9),
            array=MacArray(
                rows=values["chip.mac_array.rows"],
                cols=values["chip.mac_array.cols"],
                clock_hz=number("chip.mac_array.clock_mhz", 1e6),
                dataflow=values["chip.mac_array.dataflow"],
            ),
            vector=VectorUnit(
                lanes=values["chip.vector_unit.lanes"],
                clock_hz=number("chip.vector_unit.clock_mhz", 1e6),
            ),
            storage=StorageWidths(self._storage, values["chip.weight_unpacking"]),
        )

    def _kinds(self, num_chips: int | None) -> tuple[tuple[KindOfChip, ...], list[int]]:
        """The kinds of chips, none while there are faults, and the kind of each chip; or nothing.

        Faults are noted.
        """
        tables = self.reader.chip_tables
        if tables is None:
            if self.reader.form.kinds and PLACE_TABLE in self.data.data:
                message = "all chips are of one kind"
                hint = "describe kinds of chips in tables [[chip]], or leave this table out"
                self.reader.fault("MCM-T008", message, (PLACE_TABLE,), hint)
            return (), []
        kind_of = read_places(self.reader, [table.name for table in tables], num_chips)
        supports = self._supports(tables)
        self._check_kinds(tables)
        if self.reader.faults:
            return (), []
        kinds: list[KindOfChip] = []
        for table, support in zip(tables, supports, strict=True):
            numbers = of_kind(self.values, table.values)
            chip = self._reference(table.values)
            energy, area = energy_costs(numbers), area_costs(numbers)
            kinds.append(KindOfChip(table.name, chip, support, energy, area))
        return tuple(kinds), kind_of

    def _supports(self, tables: Sequence[ChipTable]) -> list[OpSupport | None]:
        """The ops and types that chips of each kind support."""
        shared = {path: value for path, value in self.values.items() if path.startswith("host.")}
        every = shared.get("host.large_tables", "chips") != "chips"
        listing = [index for index, table in enumerate(tables) if every or table.lists_support]
        found: dict[int, OpSupport | None] = {}
        # Where no kind lists anything, one look notes what is said of the host in vain.
        for index in listing or range(min(1, len(tables))):
            with self.reader.inside(CHIP_TABLE, index):
                values = {**shared, **tables[index].values}
                found[index] = read_support(self.reader, values, CHIP_TABLE)
        supports: list[OpSupport | None] = []
        for index in range(len(tables)):
            kind = index
            while kind not in found and kind >= 0:
                kind = tables[kind].parent
            supports.append(found.get(kind))
        return supports

    def _check_kinds(self, tables: Sequence[ChipTable]) -> None:
        """Notes what cannot differ between kinds."""
        for index, table in enumerate(tables):
            first, own = (one.values.get(ALIGNMENT) for one in (tables[0], table))
            if own != first and ALIGNMENT in table.given:
                message = f"chips of the first kind align buffers to {first} bytes, and all chips "
                message += "of a package do so alike"
                at = (CHIP_TABLE, index, ALIGNMENT.removeprefix("chip."))
                self.reader.fault("MCM-T008", message, at, "leave it out")
            priced = [path for path in table.given if path.startswith(f"chip.{ENERGY_TABLE}.")]
            if priced and ENERGY_TABLE not in self.data.data:
                message = f"links and the host have no energy without a table [{ENERGY_TABLE}]"
                at = (CHIP_TABLE, index, *priced[0].split(".")[1:])
                self.reader.fault("MCM-T008", message, at, "add that table, or leave this out")
        sized = [area_costs(of_kind(self.values, table.values)) is not None for table in tables]
        if any(sized) and not all(sized):
            lacking, other = sized.index(False), sized.index(True)
            message = f"chips of the kind {quote(tables[lacking].name)} have no area, and those of "
            message += f"{quote(tables[other].name)} have one"
            hint = "add a table [area] for all chips, or the area of this kind"
            self.reader.fault("MCM-T008", message, (CHIP_TABLE, lacking, AREA_TABLE), hint)

    def _check_energy(self) -> None:
        if ENERGY_TABLE not in self.data.data or STREAM_TABLE not in self.data.data:
            return
        if "energy.memory_byte_pj" not in self.values:
            message = "reads from off-package memory have no energy"
            hint = f"add memory_byte_pj = ... to the table [{ENERGY_TABLE}]"
            self.reader.fault("MCM-T008", message, (ENERGY_TABLE, "memory_byte_pj"), hint)

    def _check_spill(self) -> None:
        if self._kind is not None:
            return  # neither is a key then
        spill, has_memory = self.values.get("package.spill"), STREAM_TABLE in self.data.data
        if spill == "stream" and not has_memory:
            hint = f"add the table [{STREAM_TABLE}] with bandwidth_gb_per_s and latency_us"
            message = "there is no off-package memory to stream from"
            self.reader.fault("MCM-T008", message, ("package", "spill"), hint)
        elif spill == "none" and has_memory:
            message = "nothing uses off-package memory"
            hint = 'add spill = "stream" to the table [package], or leave this table out'
            self.reader.fault("MCM-T008", message, (STREAM_TABLE,), hint)


def _sram_bytes(mib: float) -> int:
    return math.floor(mib * 2**20)
