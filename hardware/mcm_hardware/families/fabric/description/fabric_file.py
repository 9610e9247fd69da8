"""From the TOML description of a fabric to its sites and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.toml_description import parse_description
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.families.fabric.description.fabric_schema import FABRIC_FORM, FABRIC_KEYS


@dataclass(frozen=True, eq=False)
class FabricSpec:
    """What a description says.

    Attributes:
        summary: one line, or `""`.
        fabric: the grid.
        source_text: the TOML that it was read from, to be stored with what was made for it.
    """

    summary: str
    fabric: Fabric
    source_text: str


def parse_fabric(name: str, text: str) -> FabricSpec:
    """The fabric that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics; also that of the fabric.
        text: the description; its keys are those of `fabric_schema`.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction.
    """
    description = parse_description(name, text)
    reader = DescriptionReader(description, FABRIC_FORM)
    values = reader.read(description.data, FABRIC_KEYS)
    check_grid(reader, values)
    if faults := reader.faults:
        raise CompileError(faults)
    return FabricSpec(values["summary"], grid(name, values), text)


def check_grid(reader: DescriptionReader, values: Mapping[str, Any]) -> None:
    """Notes what numbers of a grid contradict each other; those at fault are missing in `values`.

    Args:
        reader: of the description that they stand in.
        values: by the paths of `GRID_KEYS`.
    """
    if values.get("grid.rows") == values.get("grid.cols") == 1:
        message = "a grid of one switch has a compute site and no memory site"
        reader.fault("MCM-T008", message, ("grid", "cols"), "give it two columns, or more")
    flit = values.get("network.flit_elements", 0) * values.get("network.element_bytes", 0)
    room = values.get("memory.unit_kib")
    if room is not None and flit > room * 1024:
        message = f"a flit has {flit} bytes, and a memory unit {room * 1024}"
        hint = "smaller flits, or larger units"
        reader.fault("MCM-T008", message, ("network", "flit_elements"), hint)


def grid(name: str, values: Mapping[str, Any]) -> Fabric:
    """The fabric with given numbers.

    Sites are numbered by switch, row by row: a checkerboard that begins with a compute site. I/O
    sites follow, one at both ends of each row, also by switch; in this order they share channels.

    Args:
        name: of the fabric.
        values: numbers without fault, by the paths of `GRID_KEYS`.
    """
    rows, cols = values["grid.rows"], values["grid.cols"]
    place = np.arange(rows * cols)
    inner = np.where((place // cols + place % cols) % 2 == 0, COMPUTE, MEMORY)
    first = np.arange(rows) * cols
    ends = np.sort(np.concatenate([first, first + cols - 1]))
    behind = np.arange(len(ends)) // values["grid.io_sites_per_channel"]
    return Fabric(
        name=name,
        rows=rows,
        cols=cols,
        kind=np.concatenate([inner, np.full(len(ends), IO)]).astype(np.int32),
        switch=np.concatenate([place, ends]).astype(np.int32),
        channel=np.concatenate([np.full(rows * cols, -1), behind]).astype(np.int32),
        num_channels=int(behind[-1]) + 1,
        clock_hz=values["grid.clock_mhz"] * 1e6,
        macs_per_cycle=values["compute.macs_per_cycle"],
        lanes=values["compute.lanes"],
        flit_elements=values["network.flit_elements"],
        element_bytes=values["network.element_bytes"],
        memory_bytes=values["memory.unit_kib"] * 1024,
        banks=values["memory.banks"],
        hop_cycles=values["network.hop_cycles"],
        fifo_flits=values["network.fifo_flits"],
        window_flits=values["network.window_flits"],
        output_flits=values["network.output_flits"],
    )
