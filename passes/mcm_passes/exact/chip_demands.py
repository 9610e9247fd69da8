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
from mcm_passes.partitioning.fast_model import ALIGNMENT, aligned
from mcm_passes.solver.rule_graph import RuleGraph


class ChipDemands(NamedTuple):
    """The demands of n nodes, I items and T tensors.

    Attributes:
        work_s: `[n]`, seconds of each unit.
        pinned: `[n]`, chip that the unit must be on, or -1.
        out_bytes: `[n]`, host channel bytes of graph outputs; 0 where only the ends have one.
        out_room: `[n]`, memory of their send buffers in blocks of `ALIGNMENT` bytes.
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
    blocks = aligned(problem.tensor_bytes) // ALIGNMENT
    readers_of = _nodes_behind(problem, node_of)
    producer = problem.tensor_producer
    cloned = (producer >= 0) & problem.clonable[np.maximum(producer, 0)]
    to_host = problem.tensor_to_host & (producer >= 0)

    out_bytes, out_room = np.zeros(n, np.int64), np.zeros(n, np.int64)
    entry_room, exit_room, entering = 0, 0, 0
    tensors: list[int] = []
    rows: list[list[int]] = []
    items = _Items()
    clone_room = np.zeros(problem.num_units, np.int64)
    for t in range(producer.size):
        read_by = sorted(
            {
                v
                for u in problem.tensor_consumers[
                    problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]
                ].tolist()
                for v in readers_of[u]
            }
        )
        if cloned[t]:
            clone_room[producer[t]] += blocks[t]
        elif producer[t] >= 0 or ends:
            if producer[t] < 0 and not read_by:
                continue
            tensors.append(t)
            rows.append(read_by)
            if producer[t] < 0:
                entry_room += slots * int(blocks[t])
                entering += int(problem.tensor_bytes[t])
            elif to_host[t] and ends:
                exit_room += slots * int(blocks[t])
            elif to_host[t]:
                out_bytes[node_of[producer[t]]] += problem.tensor_bytes[t]
                out_room[node_of[producer[t]]] += slots * blocks[t]
        else:
            items.add(read_by, room=slots * int(blocks[t]), in_bytes=int(problem.tensor_bytes[t]))
    for u in np.flatnonzero(problem.clonable).tolist():
        items.add(readers_of[u], seconds=float(problem.compute_s[u]), room=int(clone_room[u]))
    for w, room in enumerate((aligned(problem.weight_bytes) // ALIGNMENT).tolist()):
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]].tolist()
        items.add(sorted({v for u in users for v in readers_of[u]}), room=room, weight=room)

    chosen = np.array(tensors, np.int64)
    made_by = np.where(producer[chosen] >= 0, node_of[producer[chosen]], -1).astype(np.int32)
    by_maker = np.argsort(made_by, kind="stable")
    by_maker = by_maker[made_by[by_maker] >= 0]
    reader_ptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=reader_ptr[1:])
    item_ptr, flat_items = items.by_node(n)
    leaving = int(problem.tensor_bytes[to_host].sum())
    return ChipDemands(
        work_s=problem.compute_s[graph.units],
        pinned=problem.pinned_chip[graph.units],
        out_bytes=out_bytes,
        out_room=out_room,
        item_ptr=item_ptr,
        items=flat_items,
        item_s=np.array(items.seconds, np.float64),
        item_room=np.array(items.room, np.int64),
        item_weight=np.array(items.weight, np.int64),
        item_in_bytes=np.array(items.in_bytes, np.int64),
        producer=made_by,
        reader_ptr=reader_ptr,
        readers=np.array([v for row in rows for v in row], np.int32),
        tensor_bytes=problem.tensor_bytes[chosen],
        tensor_room=blocks[chosen],
        relay_s=problem.relay_s[chosen],
        to_host=to_host[chosen],
        made_ptr=np.searchsorted(made_by[by_maker], np.arange(n + 1)).astype(np.int64),
        made=by_maker.astype(np.int32),
        entry_room=entry_room,
        exit_room=exit_room,
        host_s=max(entering, leaving) / limits.host_bytes_per_s if ends else 0.0,
        slots=slots,
        relay=problem.routing == "relay",
        ends=ends,
    )


class _Items:
    """Items while they are collected; those that no node wants are left out."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.room: list[int] = []
        self.weight: list[int] = []
        self.in_bytes: list[int] = []
        self._users: list[list[int]] = []

    def add(
        self,
        users: list[int],
        *,
        seconds: float = 0.0,
        room: int = 0,
        weight: int = 0,
        in_bytes: int = 0,
    ) -> None:
        if not users:
            return
        self._users.append(users)
        self.seconds.append(seconds)
        self.room.append(room)
        self.weight.append(weight)
        self.in_bytes.append(in_bytes)

    def by_node(self, num_nodes: int) -> tuple[Longs, Ints]:
        """CSR of the items of each node."""
        node = np.array([v for users in self._users for v in users], np.int64)
        item = np.repeat(np.arange(len(self._users)), [len(users) for users in self._users])
        order = np.argsort(node, kind="stable")
        ptr = np.searchsorted(node[order], np.arange(num_nodes + 1)).astype(np.int64)
        return ptr, item[order].astype(np.int32)


def _nodes_behind(problem: PartitionProblem, node_of: Longs) -> list[list[int]]:
    """For each unit its node; for a clonable unit the nodes whose chips need a copy."""
    behind: list[list[int]] = [[v] if v >= 0 else [] for v in node_of.tolist()]
    readers: dict[int, set[int]] = {}
    for t, producer in enumerate(problem.tensor_producer.tolist()):
        if producer >= 0 and problem.clonable[producer]:
            row = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            readers.setdefault(producer, set()).update(row.tolist())
    # Backwards, because a clone's readers may be clones themselves.
    for u in sorted(readers, reverse=True):
        behind[u] = sorted({v for reader in readers[u] for v in behind[reader]})
    return behind
