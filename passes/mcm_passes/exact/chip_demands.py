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

from mcm_compiler.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.rows import Rows, starts
from mcm_passes.partitioning.rooms import needed_rooms, tensor_rooms, weight_blocks
from mcm_passes.solver.rule_graph import RuleGraph


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
        producer: `[T]`, node that makes the tensor, or -1 for the host.
        reader_ptr: `[T + 1]`, CSR of the nodes that read it.
        readers: distinct and ascending for each tensor.
        tensor_bytes: `[T]`.
        tensor_room: `[T]`, blocks of one buffer.
        relay_s: `[T]`, seconds of one relay.
        to_host: `[T]`, True for graph outputs.
        need: whether memory is counted as `NeededRooms` has it, in any order of the nodes.
        send_room: `[T]`, blocks of one send buffer on the chip that makes it.
        live_room: `[T]`, blocks while it is held on the chip that makes it; at need alone.
        held_ptr: `[T + 1]`, CSR of the nodes that hold it, at need alone.
        held: those nodes.
        stay_ptr: `[T + 1]`, CSR of the nodes that must be on one chip with its maker for that.
        stay: those nodes.
        made_ptr: `[n + 1]`, CSR of the tensors that each node makes.
        made: those tensors.
        entry_room: blocks that the first chip needs beside.
        exit_room: blocks that the last used chip needs beside.
        host_s: least period that the host's channels allow, where only the ends have one.
        slots: buffers of an arriving tensor, and of a leaving one.
        relay: whether tensors are passed on by the chips between.
        ends: whether only the first and the last used chip reach the host.
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
    producer: Ints
    reader_ptr: Longs
    readers: Ints
    tensor_bytes: Longs
    tensor_room: Longs
    relay_s: Floats
    to_host: Bools
    need: bool
    send_room: Longs
    live_room: Longs
    held_ptr: Longs
    held: Ints
    stay_ptr: Longs
    stay: Ints
    made_ptr: Longs
    made: Ints
    entry_room: int
    exit_room: int
    host_s: float
    slots: int
    relay: bool
    ends: bool


def chip_demands(problem: PartitionProblem, graph: RuleGraph) -> ChipDemands:
    """The demands of the nodes of `graph`, which is the rule graph of `problem`."""
    n = graph.num_nodes
    limits = problem.limits
    ends = limits.host_io == "ends"
    slots = limits.channel_slots
    node_of = np.full(problem.num_units, -1, np.int64)
    node_of[graph.units] = np.arange(n)
    blocks = tensor_rooms(problem) // problem.limits.buffer_alignment_bytes
    # Nodes have the order of their units, so that rows stay ascending.
    read_by = _nodes(problem.placed_readers, node_of)
    producer = problem.tensor_producer
    made = producer >= 0
    cloned = made & problem.clonable[np.maximum(producer, 0)]
    to_host = problem.tensor_to_host & made

    travels = ~cloned & (made | (ends & (np.diff(read_by.ptr) > 0)))
    chosen = np.flatnonzero(travels)
    readers = read_by.chosen(chosen)
    entering = np.flatnonzero(travels & ~made)
    leaving = np.flatnonzero(to_host & ~cloned)
    out_bytes, out_room = np.zeros(n, np.int64), np.zeros(n, np.int64)
    shared = _shared_rooms(problem, node_of, chosen)
    sends = np.full(producer.size, -1)
    sends[chosen] = shared.send_room
    if not ends:
        np.add.at(out_bytes, node_of[producer[leaving]], problem.tensor_bytes[leaving])
        # At need, what units read as well counts where it crosses, as it has its buffers once.
        once = leaving[(np.diff(problem.tensor_ptr)[leaving] == 0) | (not shared.need)]
        np.add.at(out_room, node_of[producer[once]], slots * sends[once])
    made_by = np.where(made[chosen], node_of[producer[chosen]], -1).astype(np.int32)
    by_maker = np.argsort(made_by, kind="stable")
    by_maker = by_maker[made_by[by_maker] >= 0]
    items = _items(problem, node_of, read_by.chosen(arriving := np.flatnonzero(~made)), arriving)
    wanted = np.flatnonzero(np.diff(items.users.ptr) > 0)
    item_ptr, flat_items = _by_node(items.users.chosen(wanted), n)
    host_bytes = max(
        int(problem.tensor_bytes[entering].sum()), int(problem.tensor_bytes[to_host].sum())
    )
    return ChipDemands(
        work_s=problem.compute_s[graph.units],
        pinned=problem.pinned_chip[graph.units],
        out_bytes=out_bytes,
        out_room=out_room,
        item_ptr=item_ptr,
        items=flat_items,
        item_s=items.seconds[wanted],
        item_room=items.room[wanted],
        item_weight=items.weight[wanted],
        item_in_bytes=items.in_bytes[wanted],
        producer=made_by,
        reader_ptr=readers.ptr,
        readers=readers.entries.astype(np.int32),
        tensor_bytes=problem.tensor_bytes[chosen],
        tensor_room=blocks[chosen],
        relay_s=problem.relay_s[chosen],
        to_host=to_host[chosen],
        **shared._asdict(),
        made_ptr=np.searchsorted(made_by[by_maker], np.arange(n + 1)).astype(np.int64),
        made=by_maker.astype(np.int32),
        entry_room=slots * int(blocks[entering].sum()),
        exit_room=slots * int(sends[leaving].sum()) if ends else 0,
        host_s=host_bytes / limits.host_bytes_per_s if ends else 0.0,
        slots=slots,
        relay=problem.routing == "relay",
        ends=ends,
    )


class _SharedRooms(NamedTuple):
    """As in `ChipDemands`."""

    need: bool
    send_room: Longs
    live_room: Longs
    held_ptr: Longs
    held: Ints
    stay_ptr: Longs
    stay: Ints


def _shared_rooms(problem: PartitionProblem, node_of: Longs, chosen: Longs) -> _SharedRooms:
    unit = problem.limits.buffer_alignment_bytes
    if problem.memory == "estimate":
        none, nobody = np.zeros(chosen.size + 1, np.int64), np.zeros(0, np.int32)
        room = tensor_rooms(problem)[chosen] // unit
        return _SharedRooms(False, room, none[1:], none, nobody, none, nobody)
    rooms = needed_rooms(problem)
    held = Rows(rooms.held_ptr, node_of[rooms.held]).chosen(chosen)
    stay = Rows(rooms.stay_ptr, node_of[rooms.stay]).chosen(chosen)
    # What the host sends along the ring is passed on from buffers of its own.
    made = problem.tensor_producer[chosen] >= 0
    send = np.where(made, rooms.send[chosen], tensor_rooms(problem)[chosen])
    return _SharedRooms(
        True,
        send // unit,
        rooms.live[chosen] // unit,
        held.ptr,
        held.entries.astype(np.int32),
        stay.ptr,
        stay.entries.astype(np.int32),
    )


class _Items(NamedTuple):
    """Inputs that the host sends to every chip, then clones, then weights; some unwanted."""

    users: Rows
    seconds: Floats
    room: Longs
    weight: Longs
    in_bytes: Longs


def _items(problem: PartitionProblem, node_of: Longs, input_users: Rows, inputs: Longs) -> _Items:
    blocks = tensor_rooms(problem) // problem.limits.buffer_alignment_bytes
    if problem.limits.host_io == "ends":
        inputs, input_users = inputs[:0], input_users.chosen(inputs[:0])
    clones = np.flatnonzero(problem.clonable)
    clone_room = np.zeros(problem.num_units, np.int64)
    made = problem.tensor_producer >= 0
    if problem.memory == "estimate":
        np.add.at(clone_room, problem.tensor_producer[made], blocks[made])
    weights = weight_blocks(problem)
    by_clone = _nodes(problem.clone_closure.chosen(clones), node_of)
    parts = (input_users, by_clone, _nodes(problem.placed_weight_users, node_of))
    counts = np.concatenate([np.diff(part.ptr) for part in parts])
    others = np.zeros(inputs.size + clones.size, np.int64)
    return _Items(
        users=Rows(starts(counts), np.concatenate([part.entries for part in parts])),
        seconds=np.concatenate(
            [np.zeros(inputs.size), problem.compute_s[clones], np.zeros(weights.size)]
        ),
        room=np.concatenate(
            [problem.limits.channel_slots * blocks[inputs], clone_room[clones], weights]
        ),
        weight=np.concatenate([others, weights]),
        in_bytes=np.concatenate(
            [problem.tensor_bytes[inputs], np.zeros(clones.size + weights.size, np.int64)]
        ),
    )


def _nodes(users: Rows, node_of: Longs) -> Rows:
    """The same rows with units as nodes."""
    return Rows(users.ptr, node_of[users.entries])


def _by_node(users: Rows, num_nodes: int) -> tuple[Longs, Ints]:
    """CSR of the rows that each node is in."""
    order = np.argsort(users.entries, kind="stable")
    ptr = np.searchsorted(users.entries[order], np.arange(num_nodes + 1)).astype(np.int64)
    return ptr, users.owners[order].astype(np.int32)
