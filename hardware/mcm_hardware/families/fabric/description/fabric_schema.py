"""Which keys descriptions of fabrics have, and which values they take."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_hardware.descriptions.target_schema import (
    COST_KEYS,
    Choice,
    DescriptionForm,
    Key,
    Number,
    Text,
    tables_of,
)

MAX_SIDE = 64
"""Switches in a row or a column: 4096 sites, and I/O sites besides."""

GRID_KEYS: Mapping[str, Key] = {
    "grid.rows": Key(Number(1, MAX_SIDE, whole=True), "rows of switches"),
    "grid.cols": Key(Number(1, MAX_SIDE, whole=True), "switches in a row"),
    "grid.io_sites_per_channel": Key(
        Number(1, 2 * MAX_SIDE, whole=True), "I/O sites that share a memory channel", default=3
    ),
    "grid.clock_mhz": Key(Number(1.0, 1e5), "clock of everything"),
    "compute.macs_per_cycle": Key(
        Number(1, 2**20, whole=True), "multiply-accumulates of a compute unit"
    ),
    "compute.lanes": Key(
        Number(1, 2**16, whole=True),
        "elements that a compute unit works on per cycle where it does no matrix product",
    ),
    "memory.unit_kib": Key(Number(1, 2**20, whole=True), "SRAM of a memory unit"),
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

FABRIC_KEYS: Mapping[str, Key] = {
    "family": Key(Choice(("fabric",)), "which code reads the file"),
    "summary": Key(Text(), "the line in `mcmc targets`", default=""),
    **GRID_KEYS,
    **COST_KEYS,
}
"""Keys of a fabric's own file."""

FABRIC_FORM = DescriptionForm("a fabric", tables_of(FABRIC_KEYS))
"""The form of the file."""
