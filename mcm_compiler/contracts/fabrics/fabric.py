"""The contract of fabrics: sites of a few kinds on a mesh of switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Ints

COMPUTE, MEMORY, IO = 0, 1, 2
"""Kinds of sites, and of the units that they can hold."""

KINDS = ("compute", "memory", "io")
"""Names of the kinds."""

EAST, WEST, NORTH, SOUTH = 0, 1, 2, 3
"""Directions in which links leave a switch: to the next column, the column before, the row before,
the next row. The link that leaves switch s in direction d has the number `4 s + d`."""


@dataclass(frozen=True, eq=False)
class Fabric:
    """S sites on a mesh of `rows x cols` switches. All arrays are read-only.

    Switch `row * cols + col` has a link to each neighbour, one way each. Each switch holds one
    compute or memory site; those of the first and the last column hold I/O sites besides.

    Attributes:
        name: as targets name it.
        rows: of switches.
        cols: of switches.
        kind: `[S]`, `COMPUTE`, `MEMORY` or `IO`.
        switch: `[S]`, the switch that each site hangs on.
        channel: `[S]`, memory channel behind an I/O site, from 0; -1 for other sites.
        num_channels: memory channels.
        clock_hz: cycles per second of everything.
        macs_per_cycle: multiply-accumulates of a compute unit.
        lanes: elements that a compute unit processes per cycle, except in matrix products.
        flit_elements: elements that a flit carries; a link, a port and a memory channel carry one
            flit per cycle.
        element_bytes: bytes of an element in a memory unit and on links.
        memory_bytes: SRAM of a memory unit.
        banks: of a memory unit; each is read or written once per cycle.
        hop_cycles: from leaving one switch until a flit may leave the next.
        fifo_flits: size of the FIFO after each link, for each of the two virtual channels.
        window_flits: flits of a stream that may be on their way to each destination, or unread
            there: end-to-end credits.
        output_flits: size of the register before a unit's port, for each stream that leaves it.
    """

    name: str
    rows: int
    cols: int
    kind: Ints
    switch: Ints
    channel: Ints
    num_channels: int
    clock_hz: float
    macs_per_cycle: int
    lanes: int
    flit_elements: int
    element_bytes: int
    memory_bytes: int
    banks: int
    hop_cycles: int
    fifo_flits: int
    window_flits: int
    output_flits: int

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def num_sites(self) -> int:
        """S."""
        return len(self.kind)

    @property
    def num_switches(self) -> int:
        """`rows * cols`."""
        return self.rows * self.cols

    def of_kind(self, kind: int) -> Ints:
        """Sites of a kind, ascending."""
        return np.flatnonzero(self.kind == kind).astype(np.int32)
