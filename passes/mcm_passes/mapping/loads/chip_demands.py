"""Demands of units on the chip that they are on, as arrays for search.

Nodes are the units with a place of their own in an order that the caller gives, `0 .. n - 1`. What
a chip needs once however many of its units want it (a weight, a clone, a graph input that the host
sends to every chip) is an *item*. What travels from a unit to units on later chips is a *tensor*;
where only the ends of the ring reach the host, graph inputs are tensors without a producer. All
numbers are those of the table of demands, so that a partition costs here exactly what it costs in
the analytic model. Evaluations, windows along an order and between ideals, moves and CP-SAT all
begin with these.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Rows, starts
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements import ring_rules
from mcm_passes.mapping.loads.demand_table import (
    DemandTable,
    Resource,
    Subject,
    Trigger,
    demand_table,
    least_at_root,
)
from mcm_passes.mapping.problem.resident_sizes import needed_sizes, tensor_sizes

CROSSED, EXITED, ENTERED, MADE, RECEIVED, SENT, PASSED, LIVE = range(8)
"""Columns of `TensorDemands.amount`, named after their triggers."""


_COLUMNS = (
    (Trigger.CROSSED, Resource.LINK),
    (Trigger.EXITED, Resource.HOST_OUT),
    (Trigger.ENTERED, Resource.HOST_IN),
    (Trigger.MADE, Resource.HELD),
    (Trigger.RECEIVED, Resource.HELD),
    (Trigger.SENT, Resource.HELD),
    (Trigger.PASSED, Resource.HELD),
    (Trigger.STAYS, Resource.LIVE),
)


_KNOWN = {
    (Subject.UNIT, Trigger.MADE, Resource.BUSY),
    (Subject.TENSOR, Trigger.PASSED, Resource.BUSY),
    (Subject.TENSOR, Trigger.COPIED, Resource.BUSY),
    (Subject.WEIGHT, Trigger.READ, Resource.WEIGHT),
    *((Subject.TENSOR, trigger, resource) for trigger, resource in _COLUMNS),
    (Subject.TENSOR, Trigger.ENTERED, Resource.HOST_ROOT_IN),
    (Subject.TENSOR, Trigger.EXITED, Resource.HOST_ROOT_OUT),
}


class NodeDemands(NamedTuple):
    """Demands of each of n nodes on its chip, and what it needs and makes.

    Attributes:
        work_s: `[n]`, seconds at speed 1.
        pinned: `[n]`, chip that the unit must be on, or -1.
        out_bytes: `[n]`, host channel bytes of graph outputs; 0 where only the ends have one.
        out_room: `[n]`, memory of their send buffers in blocks of the alignment.
        items: `[n]` rows of the items that each needs, ascending.
        made: `[n]` rows of the tensors that each makes.
        viewed: `[n]` rows of the tensors that are copied where they leave a chip without the node,
            which writes their memory.
    """

    work_s: Floats
    pinned: Ints
    out_bytes: Longs
    out_room: Longs
    items: Rows
    made: Rows
    viewed: Rows


class ItemDemands(NamedTuple):
    """Demands of each of I items on every chip with a node that needs it.

    Items are inputs that the host sends to every reader, then clones, then weights.

    Attributes:
        users: `[I]` rows of the nodes that need it, ascending.
        unit: `[I]`, the clonable unit that is copied, or -1 for what is none.
        busy_s: `[I]`, seconds at speed 1.
        held: `[I]`, blocks of buffers.
        weight: `[I]`, blocks of weights.
        enters: `[I]`, whether the host sends it, also where it has no bytes.
        in_bytes: `[I]`, host channel bytes.
    """

    users: Rows
    unit: Longs
    busy_s: Floats
    held: Longs
    weight: Longs
    enters: Bools
    in_bytes: Longs


class TensorDemands(NamedTuple):
    """Demands of each of T tensors along its way, and its ends.

    Attributes:
        number: `[T]`, its number in the problem.
        producer: `[T]`, node that makes the tensor, or -1 for the host.
        readers: `[T]` rows of the nodes that read it, distinct and ascending.
        kind: `[T]`, bits of `ring_routes`: how each travels. By `chip_demands`, none is
            `SENT_ONCE`: what units read as well as the host has its send buffers where it crosses
            a link.
        amount: `[T, 8]`, columns of `tensor_columns`; memory in blocks.
        passed_s: `[T]`, seconds at speed 1 of a chip that passes it on.
        copied_s: `[T]`, seconds at speed 1 of its maker's chip if it leaves that, and `writer` is
            not there; 0 for all but views.
        writer: `[T]`, the node that writes the memory of a view, or -1 where none does.
        room: `[T]`, blocks of one buffer.
    """

    number: Longs
    producer: Ints
    readers: Rows
    kind: Longs
    amount: Longs
    passed_s: Floats
    copied_s: Floats
    writer: Ints
    room: Longs

    @property
    def copied(self) -> Longs:
        """The tensors that may be copied, ascending."""
        return np.flatnonzero(self.copied_s > 0.0)

    @property
    def last(self) -> Longs:
        """`[T]`, the last node that reads each tensor, or -1."""
        ends = self.readers.ptr[1:]
        padded = np.append(self.readers.entries, -1)
        return np.where(ends > self.readers.ptr[:-1], padded[ends - 1], -1)


class HeldTensors(NamedTuple):
    """Which nodes hold which tensors where memory is counted as `NeededSizes` has it.

    Attributes:
        need: whether it is; in any order of the nodes. If not, the rest is empty.
        by: `[T]` rows of the nodes that hold each tensor.
        beside: `[T]` rows of the nodes that must be on one chip with its maker for that.
    """

    need: bool
    by: Rows
    beside: Rows


class ChipDemands(NamedTuple):
    """All demands on the chips of a package.

    Attributes:
        nodes: of n nodes.
        items: of I items.
        tensors: of T tensors.
        held: at need, which nodes hold which tensors.
        host_s: least period that the channel allows that all chips share to the host and back.
        copies: whether some tensor may be copied.
    """

    nodes: NodeDemands
    items: ItemDemands
    tensors: TensorDemands
    held: HeldTensors
    host_s: float
    copies: bool

    def stays_with(self, tensor: int) -> list[int]:
        """The nodes that must be on its maker's chip for a tensor to stay there."""
        return (self.held.beside if self.held.need else self.tensors.readers).row(tensor).tolist()

    def alive_at(self, tensor: int) -> list[int]:
        """The nodes during which a tensor that stays takes memory."""
        if self.held.need:
            return self.held.by.row(tensor).tolist()
        maker = int(self.tensors.producer[tensor])
        return list(range(maker, max([maker, *self.tensors.readers.row(tensor).tolist()]) + 1))


_of_units: weakref.WeakKeyDictionary[PartitionProblem, dict[tuple[bool, bool], ChipDemands]] = (
    weakref.WeakKeyDictionary()
)


def tensor_columns(table: DemandTable, block_bytes: int) -> Longs:
    """`[T, 8]`, the demands of all tensors, memory in blocks of `block_bytes`.

    Raises:
        NotImplementedError: if the table has a demand that is not counted here.
    """
    table.check_known(_KNOWN)
    columns = [
        table.amount(Subject.TENSOR, trigger, resource)
        // (block_bytes if resource in {Resource.HELD, Resource.LIVE} else 1)
        for trigger, resource in _COLUMNS
    ]
    return np.ascontiguousarray(np.stack(columns, axis=1), np.int64)


def unit_demands(
    problem: PartitionProblem, *, own_buffers: bool = False, clone_outputs: bool = False
) -> ChipDemands:
    """The demands of all units of a problem, which are its nodes; clonable ones count for nothing.

    They are kept as long as the problem lives; nobody may change them.

    Args:
        problem: the problem.
        own_buffers: at need, count tensors that travel as in an estimate, see `demand_table`.
        clone_outputs: at need, count what clones make as in an estimate.
    """
    at_need = problem.memory == "need"
    kept = _of_units.setdefault(problem, {})
    way = at_need and own_buffers, at_need and clone_outputs
    if way not in kept:
        kept[way] = _counted(problem, *way)
    return kept[way]


def chip_demands(
    problem: PartitionProblem, units: Ints, *, own_buffers: bool = False
) -> ChipDemands:
    """The demands of the units of a problem that are not clonable, in some order.

    Args:
        problem: the problem.
        units: `[n]`, those units, such as in the rule graph or a topological order; node v is
            `units[v]`.
        own_buffers: as for `unit_demands`.
    """
    whole = unit_demands(problem, own_buffers=own_buffers)
    nodes, tensors, held = whole.nodes, whole.tensors, whole.held
    # One more for the host's tensors, whose producer is the last entry.
    node_of = np.full(problem.num_units + 1, -1, np.int64)
    node_of[units] = np.arange(units.size)
    return whole._replace(
        nodes=NodeDemands(
            work_s=nodes.work_s[units],
            pinned=nodes.pinned[units],
            out_bytes=nodes.out_bytes[units],
            out_room=nodes.out_room[units],
            items=nodes.items.chosen(units),
            made=nodes.made.chosen(units),
            viewed=nodes.viewed.chosen(units),
        ),
        items=whole.items._replace(users=whole.items.users.renamed(node_of)),
        tensors=tensors._replace(
            kind=tensors.kind & ~ring_rules.SENT_ONCE,
            producer=node_of[tensors.producer].astype(np.int32),
            writer=node_of[tensors.writer].astype(np.int32),
            readers=tensors.readers.renamed(node_of),
        ),
        held=held._replace(by=held.by.renamed(node_of), beside=held.beside.renamed(node_of)),
    )


def _counted(problem: PartitionProblem, own_buffers: bool, clone_outputs: bool) -> ChipDemands:
    """`unit_demands`, from the table."""
    n, limits = problem.num_units, problem.limits
    table = demand_table(problem, own_buffers=own_buffers)
    amount = tensor_columns(table, block := limits.buffer_alignment_bytes)
    wanted = (np.diff(problem.placed_readers.ptr) > 0) | (table.kinds & ring_rules.FROM_HOST == 0)
    chosen = np.flatnonzero(
        wanted & (table.kinds & (ring_rules.CLONED | ring_rules.EVERYWHERE) == 0)
    )
    kind, amount = table.kinds[chosen], amount[chosen]
    producer = problem.tensor_producer[chosen]
    made = producer >= 0
    makers = Rows(starts(made.astype(np.int64)), producer[made].astype(np.int64))
    at_its_chip = kind & (ring_rules.TO_HOST | ring_rules.COLLECTED) == ring_rules.TO_HOST
    # What units read as well, and has its buffers once, counts where it crosses.
    sent_here = at_its_chip & (
        (kind & ring_rules.SENT_ONCE == 0) | (np.diff(problem.tensor_ptr)[chosen] == 0)
    )
    items_table = table
    if clone_outputs != own_buffers:
        items_table = demand_table(problem, own_buffers=clone_outputs)
    copied_s = table.amount(Subject.TENSOR, Trigger.COPIED, Resource.BUSY)[chosen]
    writer = np.full(problem.tensor_bytes.size, -1, np.int32)
    if problem.copies is not None:
        writer[problem.copies.tensor] = problem.copies.writer
    writer = writer[chosen]
    written = writer >= 0
    writers = Rows(starts(written.astype(np.int64)), writer[written].astype(np.int64))
    shared = _shared_items(problem, items_table)
    used = np.flatnonzero(np.diff(shared.users.ptr) > 0)
    users = shared.users.chosen(used)
    return ChipDemands(
        nodes=NodeDemands(
            work_s=np.where(problem.clonable, 0.0, problem.compute_s),
            pinned=problem.pinned_chip.copy(),
            out_bytes=_per_unit(producer[at_its_chip], amount[at_its_chip, EXITED], n),
            out_room=_per_unit(producer[sent_here], amount[sent_here, SENT], n),
            items=users.transposed(n),
            made=makers.transposed(n),
            viewed=writers.transposed(n),
        ),
        items=ItemDemands(
            users=users,
            unit=shared.unit[used],
            busy_s=shared.busy_s[used],
            held=shared.held[used] // block,
            weight=shared.weight[used] // block,
            enters=shared.enters[used],
            in_bytes=shared.in_bytes[used],
        ),
        tensors=TensorDemands(
            number=chosen,
            producer=producer,
            readers=problem.placed_readers.chosen(chosen),
            kind=kind,
            amount=amount,
            # A copy: arrays of a problem are read-only and others are not, and kernels that take
            # one of each are compiled twice.
            passed_s=np.array(
                table.amount(Subject.TENSOR, Trigger.PASSED, Resource.BUSY)[chosen], np.float64
            ),
            copied_s=np.array(copied_s, np.float64),
            writer=writer,
            room=tensor_sizes(problem)[chosen] // block,
        ),
        held=_held(problem, chosen, own_buffers),
        host_s=least_at_root(table, problem.placed_readers) / limits.host_root_bytes_per_s,
        copies=problem.copies is not None,
    )


def _shared_items(problem: PartitionProblem, table: DemandTable) -> ItemDemands:
    """The items of a problem, with memory in bytes; some may have no user.

    Args:
        problem: the problem.
        table: its demands.
    """
    inputs = np.flatnonzero(table.kinds & ring_rules.EVERYWHERE)
    clones = np.flatnonzero(problem.clonable)
    made = np.zeros(problem.num_units, np.int64)
    by_clones = np.flatnonzero(table.kinds & ring_rules.CLONED)
    rooms = table.amount(Subject.TENSOR, Trigger.MADE, Resource.HELD)
    np.add.at(made, problem.tensor_producer[by_clones], rooms[by_clones])
    weights = table.amount(Subject.WEIGHT, Trigger.READ, Resource.WEIGHT)
    parts = (
        problem.placed_readers.chosen(inputs),
        problem.clone_closure.chosen(clones),
        problem.placed_weight_users,
    )
    none = tuple(np.zeros(part.size, np.int64) for part in parts)
    busy_s = table.amount(Subject.UNIT, Trigger.MADE, Resource.BUSY)[clones]
    received = table.amount(Subject.TENSOR, Trigger.RECEIVED, Resource.HELD)[inputs]
    entered = table.amount(Subject.TENSOR, Trigger.ENTERED, Resource.HOST_IN)[inputs]
    return ItemDemands(
        users=Rows(
            starts(np.concatenate([np.diff(part.ptr) for part in parts])),
            np.concatenate([part.entries for part in parts]),
        ),
        unit=np.concatenate([none[0] - 1, clones, none[2] - 1]),
        busy_s=np.concatenate([none[0], busy_s, none[2]]).astype(np.float64),
        held=np.concatenate([received, made[clones], none[2]]).astype(np.int64),
        weight=np.concatenate([none[0], none[1], weights]).astype(np.int64),
        enters=np.arange(sum(part.size for part in parts)) < inputs.size,
        in_bytes=np.concatenate([entered, none[1], none[2]]).astype(np.int64),
    )


def _held(problem: PartitionProblem, chosen: Longs, own_buffers: bool) -> HeldTensors:
    """The nodes that hold the chosen tensors."""
    if own_buffers or problem.memory == "estimate":
        nobody = Rows(np.zeros(chosen.size + 1, np.int64), np.zeros(0, np.int64))
        return HeldTensors(False, nobody, nobody)
    needed = needed_sizes(problem)
    return HeldTensors(True, needed.held.chosen(chosen), needed.stay.chosen(chosen))


def _per_unit(unit: Ints, amount: Longs, num_units: int) -> Longs:
    """`[N]`, the sum of what is asked for each unit."""
    total = np.zeros(num_units, np.int64)
    np.add.at(total, unit, amount)
    return total
