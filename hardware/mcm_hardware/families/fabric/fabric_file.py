"""The TOML description of a fabric: its keys, and the sites and numbers that they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY, Fabric
from mcm_hardware.descriptions.description_reader import DescriptionReader
from mcm_hardware.descriptions.target_schema import (
    COST_KEYS,
    DescriptionForm,
    Key,
    Number,
    family_keys,
)

MAX_SIDE = 64
"""Switches in a row or a column: 4096 sites, and I/O sites besides."""

GRID_KEYS: Mapping[str, Key] = {
    "grid.rows": Key(Number(1, MAX_SIDE, whole=True), "rows of switches"),
    "grid.cols": Key(Number(1, MAX_SIDE, whole=True), "switches in a row"),
    "grid.io_sites_per_channel": Key(
        Number(1, 2 * MAX_SIDE, whole=True), "I/O sites that share a memory channel", default=3
    ),
    "grid.clock_mhz": Key(Number(1.0, 1e5, better="more"), "clock of everything"),
    "compute.macs_per_cycle": Key(
        Number(1, 2**20, whole=True, better="more"), "multiply-accumulates of a compute unit"
    ),
    "compute.lanes": Key(
        Number(1, 2**16, whole=True, better="more"),
        "elements that a compute unit works on per cycle where it does no matrix product",
    ),
    "memory.unit_kib": Key(Number(1, 2**20, whole=True, better="more"), "SRAM of a memory unit"),
    "memory.banks": Key(
        Number(2, 2**10, whole=True),
        "banks of a memory unit; each is read or written once per cycle",
    ),
    "network.flit_elements": Key(
        Number(1, 2**10, whole=True),
        "elements of a flit; a link, a port and a channel carry one flit per cycle",
    ),
    "network.element_bytes": Key(
        Number(1, 8, whole=True, power_of_two=True),
        "bytes of an element in memory units and on links",
    ),
    "network.hop_cycles": Key(
        Number(1, 2**10, whole=True), "cycles from one switch until a flit may leave the next"
    ),
    "network.fifo_flits": Key(
        Number(1, 2**10, whole=True), "room behind a link, for each of its two virtual channels"
    ),
    "network.window_flits": Key(
        Number(1, 2**12, whole=True), "flits of a stream without credit, for each destination"
    ),
    "network.output_flits": Key(
        Number(1, 2**12, whole=True), "room before a unit's port, for each stream that leaves"
    ),
}
"""Keys of the grid, by table and name."""

FABRIC_KEYS: Mapping[str, Key] = {**family_keys("fabric"), **GRID_KEYS, **COST_KEYS}
"""Keys of a fabric's own file."""

FABRIC_FORM = DescriptionForm("a fabric", FABRIC_KEYS)
"""The form of the file."""


def parse_fabric(name: str, text: str) -> tuple[str, Fabric]:
    """One line about the fabric that a TOML text describes, or `""`, and the grid.

    Args:
        name: the file or target, for the place in diagnostics; also that of the fabric.
        text: the description; its keys are `FABRIC_KEYS`.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T007 more
            faults than are listed, MCM-T008 contradiction.
    """
    reader = DescriptionReader(name, text, FABRIC_FORM)
    check_grid(reader, reader.values)
    reader.refuse()
    return reader.values["summary"], grid(name, reader.values)


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
