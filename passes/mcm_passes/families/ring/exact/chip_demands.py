"""What units demand of the chip that they are on, as arrays for exact search.

Nodes are the units with a place of their own, `0 .. n - 1` in topological order. What a chip needs
once however many of its units want it (a weight, a clone, a graph input that the host sends to
every chip) is an *item*. What travels from a unit to units on later chips is a *tensor*; where only
the ends of the ring reach the host, graph inputs are tensors without a producer. All numbers are
those of the fast model, so that a partition costs here exactly what it costs there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.ring_routes import (
    CLONED,
    COLLECTED,
    EVERYWHERE,
    FROM_HOST,
    SENT_ONCE,
    TO_HOST,
)
from mcm_compiler.rows import Rows
from mcm_passes.families.ring.loads.shared_items import shared_items
from mcm_passes.mapping.loads.demand_table import demand_table, least_at_root
from mcm_passes.mapping.loads.tensor_columns import (
    CROSSED,
    ENTERED,
    EXITED,
    LIVE,
    PASSED,
    RECEIVED,
    SENT,
    tensor_columns,
)
from mcm_passes.partitioning.rooms import needed_rooms, tensor_rooms
from mcm_passes.partitioning.rule_graph import RuleGraph


class ChipDemands(NamedTuple):
    """The demands of n nodes, I items and T tensors.

    Attributes:
        work_s: `[n]`, seconds of each unit.
        pinned: `[n]`, chip that the unit must be on, or -1.
        out_bytes: `[n]`, host channel bytes of graph outputs; 0 where only the ends have one.
        out_room: `[n]`, memory of their send buffers in blocks of the alignment.
        item_ptr: `[n + 1]`, the items of node v are `items[item_ptr[v]:item_ptr[v + 1]]`.
        items: ascending for each node.
        item_s: `[I]`, chip seconds.
        item_room: `[I]`, memory in blocks, weights included.
        item_weight: `[I]`, blocks of it that are a weight.
        item_in_bytes: `[I]`, host channel bytes.
        tensors: `[T]`, each one's number in the problem.
        producer: `[T]`, node that makes the tensor, or -1 for the host.
        reader_ptr: `[T + 1]`, CSR of the nodes that read it.
        readers: distinct and ascending for each tensor.
        kind: `[T]`, bits of `ring_routes`: how each travels.
        tensor_bytes: `[T]`, on each link that it crosses.
        tensor_room: `[T]`, blocks of one buffer.
        received: `[T]`, blocks where it arrives.
        sent: `[T]`, blocks where it leaves the chip that makes it.
        passed: `[T]`, blocks where it leaves another.
        passed_s: `[T]`, seconds of a chip that passes it on.
        live: `[T]`, blocks where it stays: while it is live, or at need while it is held.
        need: whether memory is counted as `NeededRooms` has it, in any order of the nodes.
        held_ptr: `[T + 1]`, CSR of the nodes that hold it, at need alone.
        held: those nodes.
        stay_ptr: `[T + 1]`, CSR of the nodes that must be on one chip with its maker for that.
        stay: those nodes.
        made_ptr: `[n + 1]`, CSR of the tensors that each node makes.
        made: those tensors.
        entry_room: blocks that the first chip needs beside.
        exit_room: blocks that the last used chip needs beside.
        host_s: least period that those channels of the host allow that there is one of: where only
            the ends have one, and where all chips share one.
    """

    work_s: Floats
    pinned: Ints
    out_bytes: Longs
    out_room: Longs
    item_ptr: Longs
    items: Ints
    item_s: Floats
    item_room: Longs
    item_weight: Longs
    item_in_bytes: Longs
    tensors: Longs
    producer: Ints
    reader_ptr: Longs
    readers: Ints
    kind: Longs
    tensor_bytes: Longs
    tensor_room: Longs
    received: Longs
    sent: Longs
    passed: Longs
    passed_s: Floats
    live: Longs
    need: bool
    held_ptr: Longs
    held: Ints
    stay_ptr: Longs
    stay: Ints
    made_ptr: Longs
    made: Ints
    entry_room: int
    exit_room: int
    host_s: float


def chip_demands(problem: PartitionProblem, graph: RuleGraph) -> ChipDemands:
    """The demands of the nodes of `graph`, which is the rule graph of `problem`."""
    n = graph.num_nodes
    table = demand_table(problem)
    kinds = table.kinds
    columns = tensor_columns(table, block := problem.limits.buffer_alignment_bytes)
    node_of = np.full(problem.num_units, -1, np.int64)
    node_of[graph.units] = np.arange(n)
    # Nodes have the order of their units, so that rows stay ascending.
    read_by = _nodes(problem.placed_readers, node_of)
    wanted = (np.diff(read_by.ptr) > 0) | (kinds & FROM_HOST == 0)
    chosen = np.flatnonzero(wanted & (kinds & (CLONED | EVERYWHERE) == 0))
    readers = read_by.chosen(chosen)
    kind, amount = kinds[chosen], columns.amount[chosen]
    producer = problem.tensor_producer[chosen]
    made_by = np.where(producer >= 0, node_of[producer], -1).astype(np.int32)
    by_maker = np.argsort(made_by, kind="stable")
    by_maker = by_maker[made_by[by_maker] >= 0]
    entering = np.flatnonzero(kind & FROM_HOST)
    leaving = np.flatnonzero(kind & TO_HOST)
    at_its_chip = leaving[kind[leaving] & COLLECTED == 0]
    out_bytes, out_room = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(out_bytes, made_by[at_its_chip], amount[at_its_chip, EXITED])
    # What units read as well, and has its buffers once, counts where it crosses.
    counts_here = (np.diff(problem.tensor_ptr)[chosen] == 0) | (kind & SENT_ONCE == 0)
    once = at_its_chip[counts_here[at_its_chip]]
    np.add.at(out_room, made_by[once], amount[once, SENT])
    at_exit = leaving[kind[leaving] & COLLECTED > 0]
    host_bytes = max(int(amount[entering, ENTERED].sum()), int(amount[at_exit, EXITED].sum()))
    host_s = host_bytes / problem.limits.host_bytes_per_s
    host_s = max(host_s, least_at_root(table, read_by) / problem.limits.host_root_bytes_per_s)
    items = shared_items(problem, table)
    wanted = np.flatnonzero(np.diff(items.users.ptr) > 0)
    item_ptr, flat_items = _by_node(_nodes(items.users.chosen(wanted), node_of), n)
    return ChipDemands(
        work_s=problem.compute_s[graph.units],
        pinned=problem.pinned_chip[graph.units],
        out_bytes=out_bytes,
        out_room=out_room,
        item_ptr=item_ptr,
        items=flat_items,
        item_s=items.busy_s[wanted],
        item_room=(items.held + items.weight)[wanted] // block,
        item_weight=items.weight[wanted] // block,
        item_in_bytes=items.host_in[wanted],
        tensors=chosen,
        producer=made_by,
        reader_ptr=readers.ptr,
        readers=readers.entries.astype(np.int32),
        kind=kind,
        tensor_bytes=amount[:, CROSSED].copy(),
        tensor_room=tensor_rooms(problem)[chosen] // block,
        received=amount[:, RECEIVED].copy(),
        sent=amount[:, SENT].copy(),
        passed=amount[:, PASSED].copy(),
        passed_s=columns.passed_s[chosen],
        live=amount[:, LIVE].copy(),
        **_held(problem, node_of, chosen)._asdict(),
        made_ptr=np.searchsorted(made_by[by_maker], np.arange(n + 1)).astype(np.int64),
        made=by_maker.astype(np.int32),
        entry_room=int(amount[entering, RECEIVED].sum()),
        exit_room=int(amount[at_exit, SENT].sum()),
        host_s=host_s,
    )


class _Held(NamedTuple):
    """As in `ChipDemands`."""

    need: bool
    held_ptr: Longs
    held: Ints
    stay_ptr: Longs
    stay: Ints


def _held(problem: PartitionProblem, node_of: Longs, chosen: Longs) -> _Held:
    if problem.memory == "estimate":
        none, nobody = np.zeros(chosen.size + 1, np.int64), np.zeros(0, np.int32)
        return _Held(False, none, nobody, none, nobody)
    rooms = needed_rooms(problem)
    held = Rows(rooms.held_ptr, node_of[rooms.held]).chosen(chosen)
    stay = Rows(rooms.stay_ptr, node_of[rooms.stay]).chosen(chosen)
    return _Held(
        True, held.ptr, held.entries.astype(np.int32), stay.ptr, stay.entries.astype(np.int32)
    )


def _nodes(users: Rows, node_of: Longs) -> Rows:
    """The same rows with units as nodes."""
    return Rows(users.ptr, node_of[users.entries])


def _by_node(users: Rows, num_nodes: int) -> tuple[Longs, Ints]:
    """CSR of the rows that each node is in."""
    order = np.argsort(users.entries, kind="stable")
    ptr = np.searchsorted(users.entries[order], np.arange(num_nodes + 1)).astype(np.int64)
    return ptr, users.owners[order].astype(np.int32)
