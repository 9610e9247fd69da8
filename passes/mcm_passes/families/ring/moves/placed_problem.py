"""A problem as moves look at it: what each unit, item and tensor demands, in flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Entries, Rows, distinct_rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_routes import CLONED, COLLECTED, EVERYWHERE, FROM_HOST
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.families.ring.loads.shared_items import shared_items
from mcm_passes.mapping.loads.demand_table import (
    DemandTable,
    Resource,
    Subject,
    Trigger,
    demand_table,
)
from mcm_passes.mapping.loads.tensor_columns import TensorColumns, tensor_columns


class UnitItems(NamedTuple):
    """What each unit needs on its chip once, however many units there need it: `SharedItems`.

    Attributes:
        of_unit: `[N]` rows of distinct items; clonable units have none.
        busy_s: `[I]`, chip seconds.
        held: `[I]`, blocks of buffers.
        weight: `[I]`, blocks of weights.
        host_in: `[I]`, bytes that arrive from the host.
    """

    of_unit: Rows
    busy_s: Floats
    held: Longs
    weight: Longs
    host_in: Longs


class Travels(NamedTuple):
    """How tensors travel; those that clones make, or that are items, have neither ends nor rows.

    Attributes:
        columns: their demands, memory in blocks. Each tensor has buffers of its own, at need as
            well.
        producer: `[T]`, the unit that makes it, or -1 for the host.
        readers: `[T]` rows of the distinct units that read it.
        made: `[N]` rows of the tensors that each unit makes.
        read: `[N]` rows of the tensors that each unit reads.
        collected: tensors that the host wants from the last used chip.
    """

    columns: TensorColumns
    producer: Ints
    readers: Rows
    made: Rows
    read: Rows
    collected: Longs


class MoveGraph(NamedTuple):
    """Dependencies between units with a place of their own.

    Attributes:
        next_ptr: `[N + 1]`, CSR of successors.
        next_units: distinct successors of each unit.
        before_ptr: `[N + 1]`, CSR of predecessors.
        before_units: distinct predecessors of each unit.
    """

    next_ptr: Longs
    next_units: Ints
    before_ptr: Longs
    before_units: Ints


class Ring(NamedTuple):
    """The package and the rules.

    Attributes:
        rate: `[5, C]`, what a second of a chip, its link, its host channels and its stream does:
            work at normal speed, or bytes; the last in blocks.
        root_rate: `[3]`, what a second of a channel does that all chips share: bytes from the host,
            bytes to it, blocks of weights that are streamed; infinite where none is shared.
        shared: whether one of these is finite.
        room: `[C]`, blocks of memory.
        strict: whether the triangle rule holds.
        streams: whether weights may be streamed.
        packing: room for gaps between tensors that come and go.
        stream_slots: buffers that streamed weights pass through.
    """

    rate: Floats
    root_rate: Floats
    shared: bool
    room: Longs
    strict: bool
    streams: bool
    packing: float
    stream_slots: int


class PlacedProblem(NamedTuple):
    """A problem; memory is in blocks of the alignment.

    Attributes:
        fixed: `[N]`, whether each unit has a place of its own.
        work_s: `[N]`, seconds; 0 where it has none.
        pinned: `[N]`, or -1.
        items: of units.
        tensors: that travel.
        graph: of dependencies.
        ring: the package.
    """

    fixed: Bools
    work_s: Floats
    pinned: Ints
    items: UnitItems
    tensors: Travels
    graph: MoveGraph
    ring: Ring


def placed_problem(problem: PartitionProblem) -> PlacedProblem:
    """Prepares a problem for moves; its loads are those of the table of demands."""
    table = demand_table(problem, own_buffers=True)
    n, limits = problem.num_units, problem.limits
    source, target = dependency_edges(problem)
    busy_s = table.amount(Subject.UNIT, Trigger.MADE, Resource.BUSY)
    channel = np.full(problem.num_chips, limits.host_bytes_per_s)
    streamed = (limits.stream_bytes_per_s or np.inf) / limits.buffer_alignment_bytes
    rates = (
        problem.chip_speed,
        np.full(problem.num_chips, limits.link_bytes_per_s),
        channel,
        channel,
        np.full(problem.num_chips, streamed),
    )
    root = limits.host_root_bytes_per_s
    streamed_root = limits.stream_root_bytes_per_s / limits.buffer_alignment_bytes
    root_rate = np.array([root, root, streamed_root])
    return PlacedProblem(
        fixed=~problem.clonable,
        work_s=np.where(problem.clonable, 0.0, busy_s),
        pinned=problem.pinned_chip,
        items=_unit_items(problem, table),
        tensors=_travels(problem, table),
        graph=MoveGraph(*_rows(source, target, n), *_rows(target, source, n)),
        ring=Ring(
            rate=np.stack(rates).astype(np.float64),
            root_rate=root_rate,
            shared=bool(np.isfinite(root_rate).any()),
            room=np.array(limits.sram_bytes, np.int64) // limits.buffer_alignment_bytes,
            strict=problem.routing == "strict",
            streams=problem.streams,
            packing=limits.activation_packing,
            stream_slots=limits.stream_buffers,
        ),
    )


def _unit_items(problem: PartitionProblem, table: DemandTable) -> UnitItems:
    found = shared_items(problem, table)
    block = problem.limits.buffer_alignment_bytes
    return UnitItems(
        distinct_rows(found.users.entries, found.users.owners, problem.num_units),
        busy_s=found.busy_s,
        held=found.held // block,
        weight=found.weight // block,
        host_in=found.host_in,
    )


def _travels(problem: PartitionProblem, table: DemandTable) -> Travels:
    columns = tensor_columns(table, problem.limits.buffer_alignment_bytes)
    kind, read_by = columns.kind, problem.placed_readers
    # What the host holds for nobody never enters.
    unread = (kind & FROM_HOST > 0) & (np.diff(read_by.ptr) == 0)
    travels = (kind & (CLONED | EVERYWHERE) == 0) & ~unread
    own = travels[read_by.owners]
    tensor, reader = read_by.owners[own], read_by.entries[own]
    makers = np.flatnonzero(travels & (kind & FROM_HOST == 0))
    n = problem.num_units
    return Travels(
        columns=columns._replace(amount=np.where(travels[:, None], columns.amount, 0)),
        producer=problem.tensor_producer,
        readers=distinct_rows(tensor, reader, travels.size),
        made=distinct_rows(problem.tensor_producer[makers], makers, n),
        read=distinct_rows(reader, tensor, n),
        collected=np.flatnonzero(travels & (kind & COLLECTED > 0)),
    )


def _rows(owner: Entries, entry: Entries, size: int) -> tuple[Longs, Ints]:
    """CSR of the distinct entries of each owner, ascending."""
    rows = distinct_rows(owner, entry, size)
    return rows.ptr, rows.entries.astype(np.int32)
