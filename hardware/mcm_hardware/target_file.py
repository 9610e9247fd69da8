"""From the TOML description of a ring package to its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.toml_description import parse_description
from mcm_hardware.chip_overrides import Override, read_overrides
from mcm_hardware.chip_spec import ChipSpec, MacArray, RingSpec, VectorUnit
from mcm_hardware.description_reader import DescriptionReader
from mcm_hardware.storage_widths import StorageWidths
from mcm_hardware.target_schema import OVERRIDE_TABLE, RING_KEYS, STREAM_TABLE


def parse_ring(name: str, text: str) -> RingSpec:
    """The package that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `target_schema`.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T006
            unknown storage type, MCM-T007 more faults than are listed, MCM-T008 contradiction.
    """
    description = parse_description(name, text)
    reader = DescriptionReader(description)
    values = reader.read(description.data, RING_KEYS)
    storage = reader.read_storage(description.data)
    overrides = read_overrides(
        reader, description.data.get(OVERRIDE_TABLE, []), values.get("package.num_chips")
    )
    _check_spill(reader, values, STREAM_TABLE in description.data)
    if faults := reader.faults:
        raise CompileError(faults)
    return _ring_spec(values, storage, overrides)


def _check_spill(reader: DescriptionReader, values: Mapping[str, Any], has_memory: bool) -> None:
    spill = values.get("package.spill")
    if spill == "stream" and not has_memory:
        hint = f"add the table [{STREAM_TABLE}] with bandwidth_gb_per_s and latency_us"
        message = "there is no off-package memory to stream from"
        reader.fault("MCM-T008", message, ("package", "spill"), hint)
    elif spill == "none" and has_memory:
        message = "nothing uses off-package memory"
        hint = 'add spill = "stream" to the table [package], or leave this table out'
        reader.fault("MCM-T008", message, (STREAM_TABLE,), hint)


def _sram_bytes(mib: float) -> int:
    return math.floor(mib * 2**20)


def _ring_spec(
    values: Mapping[str, Any],
    storage: Mapping[ir.DataType, int],
    overrides: Mapping[int, Override],
) -> RingSpec:
    def number(path: str, unit: float) -> float:
        return float(values.get(path, 0.0)) * unit

    reference = ChipSpec(
        sram_bytes=_sram_bytes(values["chip.sram_mib"]),
        sram_bytes_per_s=number("chip.sram_bandwidth_gb_per_s", 1e9),
        alignment_bytes=values["chip.buffer_alignment_bytes"],
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
        storage=StorageWidths(dict(storage)),
    )

    def chip_at(place: int) -> ChipSpec:
        override = overrides.get(place)
        if override is None:
            return reference
        mib = override.sram_mib
        sram_bytes = reference.sram_bytes if mib is None else _sram_bytes(mib)
        return replace(reference, sram_bytes=sram_bytes, speed=override.speed)

    on = [
        place
        for place in range(values["package.num_chips"])
        if place not in overrides or not overrides[place].off
    ]
    hop_s = number("link.hop_latency_us", 1e-6)
    return RingSpec(
        summary=values["summary"],
        reference=reference,
        chips=tuple(chip_at(place) for place in on),
        physical=tuple(on),
        link_bytes_per_s=number("link.bandwidth_gb_per_s", 1e9),
        hop_latency_s=tuple((after - before) * hop_s for before, after in pairwise(on)),
        switching=values["link.switching"],
        host_io=values["package.host_io"],
        host_bytes_per_s=number("host.bandwidth_gb_per_s", 1e9),
        host_latency_s=number("host.latency_us", 1e-6),
        channel_slots=values["package.channel_slots"],
        stream_bytes_per_s=number("off_package_memory.bandwidth_gb_per_s", 1e9),
        stream_latency_s=number("off_package_memory.latency_us", 1e-6),
    )
