"""The contract of fabrics: sites on a mesh of switches, and what is laid out on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.types import Ints, Longs, ReadOnlyArrays

COMPUTE, MEMORY, IO = 0, 1, 2
"""Kinds of sites, and of the units that they can hold."""

KINDS = ("compute", "memory", "io")
"""Names of the kinds."""

EAST, WEST, NORTH, SOUTH = 0, 1, 2, 3
"""Directions in which links leave a switch: to the next column, the column before, the row before,
the next row. The link that leaves switch s in direction d has the number `4 s + d`."""


@dataclass(frozen=True, eq=False)
class Fabric(ReadOnlyArrays):
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


OP_KINDS = (
    "product",
    "attention",
    "elementwise",
    "reduction",
    "normalization",
    "softmax",
    "window",
    "movement",
    "weights",
    "buffer",
    "input",
    "output",
)
"""Work of units. Compute: matrix products with weights, and of two activations; element by element;
reductions; normalisations; softmax; pooling and other windows; moving data. Memory: holding
weights; holding samples between stages. I/O: reading from and writing to memory channels."""


@dataclass(frozen=True, eq=False)
class MappingProblem(ReadOnlyArrays):
    """U units of G stages and E streams with L destinations in all. All arrays are read-only.

    The chip works on one *sample* after another (one inference of its subgraph), and its units on
    several samples at once. What each unit does with a sample stands in `measurement`.

    Attributes:
        name: for people.
        stages: `[G]`, names of the stages along the flow of data.
        kind: `[U]`, `COMPUTE`, `MEMORY` or `IO`: the kind of site that a unit needs.
        op: `[U]`, index into `OP_KINDS`.
        stage: `[U]`, index into `stages`; a unit that holds what a stage makes belongs to it, as
            one does that holds weights for it.
        firings: `[U]`, how often a compute unit fires per sample; 0 for other units.
        cycles: `[U]`, for how many cycles each time; 0 for other units.
        burst: `[U]`, what a compute unit makes leaves it after this many firings, and after the
            last of a sample; 0 for other units.
        depth: `[U]`, samples that a memory unit between stages holds at once; 0 for other units,
            and for those that hold weights.
        memory_bytes: `[U]`, SRAM that a memory unit needs; 0 for other units.
        source: `[E]`, the unit that each stream leaves.
        leaf_ptr: `[E + 1]`, CSR of `leaf` by stream.
        leaf: `[L]`, the units that it goes to, all of it to each; distinct within a stream.
        flits: `[E]`, of a stream per sample; at least 1.
    """

    name: str
    stages: tuple[str, ...]
    kind: Ints
    op: Ints
    stage: Ints
    firings: Longs
    cycles: Longs
    burst: Longs
    depth: Ints
    memory_bytes: Longs
    source: Ints
    leaf_ptr: Ints
    leaf: Ints
    flits: Longs

    @property
    def num_units(self) -> int:
        """U."""
        return len(self.kind)

    @property
    def num_stages(self) -> int:
        """G."""
        return len(self.stages)

    @property
    def num_streams(self) -> int:
        """E."""
        return len(self.source)

    @property
    def stream_of_leaf(self) -> Longs:
        """`[L]`, the stream that each destination belongs to."""
        return np.repeat(np.arange(self.num_streams, dtype=np.int64), np.diff(self.leaf_ptr))

    @property
    def port_flits(self) -> tuple[Longs, Longs]:
        """`[U]` twice: flits that come in per sample, and that leave."""
        arriving, leaving = np.zeros((2, self.num_units), np.int64)
        np.add.at(arriving, self.leaf, self.flits[self.stream_of_leaf])
        np.add.at(leaving, self.source, self.flits)
        return arriving, leaving


def bound_cycles(problem: MappingProblem, fabric: Fabric) -> float:
    """No mapping has a shorter period.

    A compute unit fires for so long; a unit sends and takes one flit per cycle; and memory channels
    together carry all that comes in and goes out.
    """
    arriving, leaving = problem.port_flits
    work = problem.firings * problem.cycles
    outside = int((arriving + leaving)[problem.kind == IO].sum())
    shared = outside / max(fabric.num_channels, 1)
    return float(max(work.max(), arriving.max(), leaving.max(), shared))


def same_problem(one: MappingProblem, other: MappingProblem) -> bool:
    """Return whether two problems differ only in names, so that they have the same mappings."""
    return one.num_stages == other.num_stages and all(
        np.array_equal(value, getattr(other, name))
        for name, value in vars(one).items()
        if isinstance(value, np.ndarray)
    )


@dataclass(frozen=True, eq=False)
class Mappings:
    """B mappings of one problem.

    Attributes:
        site: `[B, U]`, the site of each unit.
        turn: `[B, E]`, how each stream goes through the mesh: 0 along its row first, then along
            columns; 1 along its column first. The paths to all destinations of a stream are one
            tree, as they turn alike.
    """

    site: Ints
    turn: Ints

    def __len__(self) -> int:
        """B."""
        return len(self.site)

    def __getitem__(self, index: int) -> Mappings:
        """One of them, as a batch of one."""
        return Mappings(self.site[index][None], self.turn[index][None])

    @classmethod
    def stacked(cls, parts: list[Mappings]) -> Mappings:
        """Several batches as one."""
        return cls(
            np.concatenate([part.site for part in parts]),
            np.concatenate([part.turn for part in parts]),
        )


def way(fabric: Fabric, source: int, leaf: int, turn: int) -> list[int]:
    """Links from one switch to another, in order.

    Args:
        fabric: the grid.
        source: switch.
        leaf: switch.
        turn: 0 along the row first, 1 along the column first.
    """
    row, col = divmod(source, fabric.cols)
    to_row, to_col = divmod(leaf, fabric.cols)
    links: list[int] = []
    for along_row in (turn == 0, turn != 0):
        while along_row and col != to_col:
            links.append(4 * (row * fabric.cols + col) + (EAST if to_col > col else WEST))
            col += 1 if to_col > col else -1
        while not along_row and row != to_row:
            links.append(4 * (row * fabric.cols + col) + (SOUTH if to_row > row else NORTH))
            row += 1 if to_row > row else -1
    return links


def link_loads(problem: MappingProblem, fabric: Fabric, mapping: Mappings) -> Longs:
    """`[4 * switches]`, flits per sample on each link.

    A stream crosses a link once, whatever many destinations lie behind it.

    Args:
        problem: what is laid out.
        fabric: where.
        mapping: a legal one, as a batch of one.
    """
    loads = np.zeros(4 * fabric.num_switches, np.int64)
    switch = fabric.switch[mapping.site[0]]
    for stream in range(problem.num_streams):
        source = int(switch[problem.source[stream]])
        turn = int(mapping.turn[0, stream])
        leaves = problem.leaf[problem.leaf_ptr[stream] : problem.leaf_ptr[stream + 1]]
        crossed = {link for leaf in leaves for link in way(fabric, source, int(switch[leaf]), turn)}
        loads[sorted(crossed)] += problem.flits[stream]
    return loads
