"""A partition with the loads of all resources, kept up to date while single nodes move.

For local search, whose steps change few of thousands of nodes: a move costs what its node's
tensors and items cost, not what the problem does. The numbers are those of the fast model, from
`chip_demands`; property tests hold them together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.lean_kernels import lean_njit
from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.ring_routes import COLLECTED, FROM_HOST, TO_HOST
from mcm_passes.exact.chip_demands import chip_demands
from mcm_passes.mapping.loads.demand_table import demand_table
from mcm_passes.mapping.loads.ring_kernels import (
    HELD,
    HOST_IN,
    HOST_OUT,
    LIVE,
    count_tensor,
    tensor_columns,
)
from mcm_passes.solver.rule_graph import RuleGraph

WEIGHT, LOCAL = 4, 5
"""Rows of `PlacementState.totals` behind those of `ring_kernels`."""


class PlacedProblem(NamedTuple):
    """A problem as moves look at it: `ChipDemands` with what the rules and the package add.

    Memory is in blocks of `alignment` bytes. `kind`, `amount` and `passed_s` are `TensorColumns`,
    where each tensor has buffers of its own, at need as well. `read_ptr` and `read` are the CSR of
    the tensors that each node reads; `collected` are those that the host wants from the last used
    chip. See `ChipDemands` and `RuleGraph` for the rest.
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
    kind: Longs
    amount: Longs
    passed_s: Floats
    made_ptr: Longs
    made: Ints
    read_ptr: Longs
    read: Ints
    collected: Longs
    next_ptr: Longs
    next_nodes: Ints
    before_ptr: Longs
    before_nodes: Ints
    sram_room: Longs
    speed: Floats
    link_bytes_per_s: float
    host_bytes_per_s: float
    stream_bytes_per_s: float
    host_root_bytes_per_s: float
    stream_root_bytes_per_s: float
    entry_room: int
    exit_room: int
    host_s: float
    strict: bool
    streams: bool
    alignment: int
    packing: float
    stream_slots: int


class PlacementState(NamedTuple):
    """A partition and what follows from it; all arrays change with every move.

    Attributes:
        chip: `[n]`, chip of each node.
        members: `[C, n]`, row c begins with the nodes on chip c, in no order.
        place: `[n]`, where each node is in its row.
        size: `[C]`, nodes on each chip.
        copies: `[I, C]`, nodes on each chip that want each item.
        busy_s: `[C]`, clocks of units, clones and relays in seconds of `work_s`.
        totals: `[6, C]`, bytes on the link behind each chip and on its host channels, blocks for
            buffers and clones, for weights, and for all tensors that stay on the chip.
        pairs: `[C, C]`, edges between each two chips.
        last: `[1]`, highest chip that is used.
        stamp: `[C]`, room for marks.
        clock: `[1]`, the last mark.
    """

    chip: Ints
    members: Ints
    place: Ints
    size: Longs
    copies: Ints
    busy_s: Floats
    totals: Longs
    pairs: Longs
    last: Longs
    stamp: Longs
    clock: Longs


def placed_problem(problem: PartitionProblem, graph: RuleGraph) -> PlacedProblem:
    """The problem of `graph`, its rule graph."""
    d = chip_demands(problem, graph)
    limits = problem.limits
    table = demand_table(problem, own_buffers=True)
    columns = tensor_columns(table, limits.buffer_alignment_bytes)
    tensor = np.repeat(np.arange(d.producer.size), np.diff(d.reader_ptr))
    by_reader = np.argsort(d.readers, kind="stable")
    read_ptr = np.zeros(graph.num_nodes + 1, np.int64)
    np.cumsum(np.bincount(d.readers, minlength=graph.num_nodes), out=read_ptr[1:])
    return PlacedProblem(
        work_s=d.work_s,
        pinned=d.pinned,
        out_bytes=d.out_bytes,
        out_room=d.out_room,
        item_ptr=d.item_ptr,
        items=d.items,
        item_s=d.item_s,
        item_room=d.item_room,
        item_weight=d.item_weight,
        item_in_bytes=d.item_in_bytes,
        producer=d.producer,
        reader_ptr=d.reader_ptr,
        readers=d.readers,
        kind=columns.kind[d.tensors],
        amount=columns.amount[d.tensors],
        passed_s=d.passed_s,
        made_ptr=d.made_ptr,
        made=d.made,
        read_ptr=read_ptr,
        read=tensor[by_reader].astype(np.int32),
        collected=np.flatnonzero(d.kind & COLLECTED),
        next_ptr=graph.next_ptr,
        next_nodes=graph.next_nodes,
        before_ptr=graph.before_ptr,
        before_nodes=graph.before_nodes,
        sram_room=np.array(limits.sram_bytes, np.int64) // limits.buffer_alignment_bytes,
        speed=problem.chip_speed,
        link_bytes_per_s=limits.link_bytes_per_s,
        host_bytes_per_s=limits.host_bytes_per_s,
        stream_bytes_per_s=limits.stream_bytes_per_s or np.inf,
        host_root_bytes_per_s=limits.host_root_bytes_per_s,
        stream_root_bytes_per_s=limits.stream_root_bytes_per_s,
        entry_room=d.entry_room,
        exit_room=d.exit_room,
        host_s=d.host_s,
        strict=problem.routing == "strict",
        streams=problem.streams,
        alignment=limits.buffer_alignment_bytes,
        packing=limits.activation_packing,
        stream_slots=limits.stream_buffers,
    )


def empty_state(p: PlacedProblem) -> PlacementState:
    """Room for the state of a partition; `fill_state` gives it one."""
    n, chips, items = p.work_s.size, p.speed.size, p.item_s.size
    return PlacementState(
        chip=np.zeros(n, np.int32),
        members=np.zeros((chips, n), np.int32),
        place=np.zeros(n, np.int32),
        size=np.zeros(chips, np.int64),
        copies=np.zeros((items, chips), np.int32),
        busy_s=np.zeros(chips),
        totals=np.zeros((6, chips), np.int64),
        pairs=np.zeros((chips, chips), np.int64),
        last=np.zeros(1, np.int64),
        stamp=np.zeros(chips, np.int64),
        clock=np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def fill_state(p: PlacedProblem, s: PlacementState, chip_of: Ints) -> None:
    """Puts a state to a partition `[n]` whose chips are in range."""
    s.chip[:] = chip_of
    s.size[:] = 0
    s.copies[:] = 0
    s.busy_s[:] = 0.0
    s.totals[:] = 0
    s.pairs[:] = 0
    s.last[0] = chip_of.max()
    for v in range(chip_of.size):
        _enter(p, s, v)
    for v in range(chip_of.size):
        for e in range(p.next_ptr[v], p.next_ptr[v + 1]):
            s.pairs[s.chip[v], s.chip[p.next_nodes[e]]] += 1
    for t in range(p.producer.size):
        _count_tensor(p, s, t, 1)


@lean_njit
def _enter(p: PlacedProblem, s: PlacementState, v: int) -> None:
    """Counts a node on its chip."""
    c = s.chip[v]
    s.place[v] = s.size[c]
    s.members[c, s.size[c]] = v
    s.size[c] += 1
    s.busy_s[c] += p.work_s[v]
    s.totals[HOST_OUT, c] += p.out_bytes[v]
    s.totals[HELD, c] += p.out_room[v]
    for e in range(p.item_ptr[v], p.item_ptr[v + 1]):
        i = p.items[e]
        s.copies[i, c] += 1
        if s.copies[i, c] == 1:
            s.busy_s[c] += p.item_s[i]
            s.totals[HOST_IN, c] += p.item_in_bytes[i]
            s.totals[HELD, c] += p.item_room[i] - p.item_weight[i]
            s.totals[WEIGHT, c] += p.item_weight[i]


@lean_njit
def _leave(p: PlacedProblem, s: PlacementState, v: int) -> None:
    """Takes a node off its chip."""
    c = s.chip[v]
    s.size[c] -= 1
    other = s.members[c, s.size[c]]
    s.members[c, s.place[v]] = other
    s.place[other] = s.place[v]
    s.busy_s[c] -= p.work_s[v]
    s.totals[HOST_OUT, c] -= p.out_bytes[v]
    s.totals[HELD, c] -= p.out_room[v]
    for e in range(p.item_ptr[v], p.item_ptr[v + 1]):
        i = p.items[e]
        s.copies[i, c] -= 1
        if s.copies[i, c] == 0:
            s.busy_s[c] -= p.item_s[i]
            s.totals[HOST_IN, c] -= p.item_in_bytes[i]
            s.totals[HELD, c] -= p.item_room[i] - p.item_weight[i]
            s.totals[WEIGHT, c] -= p.item_weight[i]


@lean_njit
def _count_tensor(p: PlacedProblem, s: PlacementState, t: int, sign: int) -> None:
    """Counts what a tensor takes where its producer and its readers are now, or takes it off."""
    source = 0 if p.kind[t] & FROM_HOST else int(s.chip[p.producer[t]])
    s.clock[0] += 1
    leaves = count_tensor(
        p.kind,
        p.amount,
        p.passed_s,
        t,
        p.reader_ptr,
        p.readers,
        s.chip,
        source,
        s.last[0],
        sign,
        s.busy_s,
        s.totals,
        s.stamp,
        s.clock[0],
    )
    if not leaves and not p.kind[t] & (FROM_HOST | TO_HOST):
        s.totals[LOCAL, source] += sign * p.amount[t, LIVE]


@lean_njit
def place_node(p: PlacedProblem, s: PlacementState, v: int, to: int) -> None:
    """Moves a node to a chip in range, whether or not the rules allow it."""
    for e in range(p.made_ptr[v], p.made_ptr[v + 1]):
        _count_tensor(p, s, p.made[e], -1)
    for e in range(p.read_ptr[v], p.read_ptr[v + 1]):
        _count_tensor(p, s, p.read[e], -1)
    before = s.chip[v]
    _leave(p, s, v)
    s.chip[v] = to
    _enter(p, s, v)
    for e in range(p.next_ptr[v], p.next_ptr[v + 1]):
        other = s.chip[p.next_nodes[e]]
        s.pairs[before, other] -= 1
        s.pairs[to, other] += 1
    for e in range(p.before_ptr[v], p.before_ptr[v + 1]):
        other = s.chip[p.before_nodes[e]]
        s.pairs[other, before] -= 1
        s.pairs[other, to] += 1
    for e in range(p.made_ptr[v], p.made_ptr[v + 1]):
        _count_tensor(p, s, p.made[e], 1)
    for e in range(p.read_ptr[v], p.read_ptr[v + 1]):
        _count_tensor(p, s, p.read[e], 1)
    last = max(s.last[0], to)
    while s.size[last] == 0:
        last -= 1
    if last == s.last[0]:
        return
    # Graph outputs travel to the last used chip where only the ends reach the host.
    for sign in (-1, 1):
        for k in range(p.collected.size):
            _count_tensor(p, s, p.collected[k], sign)
        s.last[0] = last
