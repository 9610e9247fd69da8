"""Where the tensors of every chip live and travel: splitting and lowering, as compiled code.

What `mcm_compiler.ir.rewriting.splitter` and `chip_dataflow.py` find out by walking through one
ONNX model per chip is found here by one walk through the tables. A value of the original graph
stands for all its copies: a chip has at most one that it makes itself, or one that arrives. What a
relay makes is known by the relay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Longs
from mcm_hardware.families.ring.batch.legalised_partition import (
    EVERYWHERE,
    NOWHERE,
    LegalisedPartition,
)
from mcm_hardware.families.ring.batch.problem_tables import (
    KernelTables,
    OpTables,
    ProblemTables,
    TensorTables,
    ValueTables,
)


class Dataflow(NamedTuple):
    """Items (kernels and relays as placed) of all chips, and the memory between them.

    A *root* is a value whose memory is written on a chip, as in `chip_dataflow.ChipDataflow`; what
    a relay makes is one of its own. An
    *arrival* is a tensor that arrives at a chip. A *wire* is a tensor with all chips to which it
    goes from one that makes it. Items and chips ascend in all tables.

    Attributes:
        item_s: `[I]`, durations.
        follows: `[F, 2]`, item that waits, and the item of the same chip that it waits for.
        roots: `[R, 4]`, item that writes it; value; whether it leaves the chip; whether its own
            writer reads it.
        uses: `[U, 2]`, item, and the root of another item that it reads.
        arrivals: `[A, 3]`, chip; wire; how many chips the wire goes to before.
        fetches: `[G, 2]`, item, and an arrival that it reads.
        wires: `[W, 5]`, chip that it comes from or `NOWHERE`; value; item that makes it or -1;
            number of chips that it goes to; the root whose memory it leaves from, unless a relay
            makes it.
        outputs: `[Y, 4]`, chip that sends a graph output to the host; item that makes it or -1;
            the wire from whose last chip it goes on, or -1; the root, as of wires.
        weights: `[S, 2]`, value that a chip stores; whether the chip sends it.
        loads: `[L, 2]`, item, and the row of a weight that it reads.
        ends: `[P, 5]`, rows of follows, roots, uses, weights and loads up to the end of each chip.
    """

    item_s: Floats
    follows: Longs
    roots: Longs
    uses: Longs
    arrivals: Longs
    fetches: Longs
    wires: Longs
    outputs: Longs
    weights: Longs
    loads: Longs
    ends: Longs


ROOT_ITEM, ROOT_VALUE, ROOT_LEAVES, ROOT_READ_INSIDE = range(4)
"""Columns of `Dataflow.roots`."""


class _Walk(NamedTuple):
    """State of the walk at an item.

    Attributes:
        marks: `[V, columns]`, see below; those of chips hold the last chip for which they count.
        last: `[4, rows]`, the last item that waits for each item, that reads each root, each
            arrival, and each weight.
        counts: rows filled so far of each table.
    """

    marks: Longs
    last: Longs
    counts: Longs


_MAKER = 0
"""Last item that makes the value."""
_ROOT, _ROOT_CHIP = 1, 2
"""The value whose memory holds it, and the chip on which that is another."""
_ROW, _MADE_CHIP = 3, 4
"""Its row among the roots, and the chip on which it is one."""
_ARRIVAL, _ARRIVAL_CHIP = 5, 6
"""Its row among the arrivals, and the chip where it arrived."""
_LEAVING_CHIP = 7
"""A chip on which another kernel reads it."""
_WEIGHT, _WEIGHT_CHIP = 8, 9
"""Its row among the weights, and the chip that stores it."""
_WRITER, _WIRE = 10, 11
"""Item that writes it and wire that carries it from its home."""
_RELAY, _LAST_WIRE = 12, 13
"""Its last relay, and the last wire that carries it."""
_SENT_ROW = 14
"""The row of the root from which it leaves its home."""
_COPIED_CHIP = 15
"""The chip on which it is a view that is copied."""
_COLUMNS = 16

_FOLLOWS, _ROOTS, _USES, _WEIGHTS, _LOADS, _ARRIVALS, _FETCHES, _WIRES = range(8)


@inner_njit
def follow_tensors(tables: ProblemTables, placement: LegalisedPartition, speed: Floats) -> Dataflow:
    """The dataflow of all chips.

    Args:
        tables: the problem.
        placement: from `place`.
        speed: `[C]`, of each chip.
    """
    kernels, ops, values = tables.kernels, tables.ops, tables.values
    reads, makes = _room(kernels, ops, placement.items)
    num_items, num_used = len(placement.items), len(placement.item_ptr) - 1
    flow = Dataflow(
        np.zeros(num_items),
        np.empty((reads, 2), np.int64),
        np.empty((makes, 4), np.int64),
        np.empty((reads, 2), np.int64),
        np.empty((reads, 3), np.int64),
        np.empty((reads, 2), np.int64),
        np.empty((reads, 5), np.int64),
        np.empty((len(values.outputs), 4), np.int64),
        np.empty((reads + len(values.outputs), 2), np.int64),
        np.empty((reads, 2), np.int64),
        np.zeros((num_used, 5), np.int64),
    )
    walk = _Walk(
        np.full((len(values.unit), _COLUMNS), -1),
        np.full((4, max(num_items, reads, makes) + len(values.outputs)), -1),
        np.zeros(8, np.int64),
    )
    for chip in range(num_used):
        _walk_chip(tables, placement, flow, walk, chip)
        _finish_chip(kernels, values, placement, flow, walk, chip, speed[chip])
    _collect_outputs(values, placement, flow, walk)
    counts = walk.counts
    return Dataflow(
        flow.item_s,
        flow.follows[: counts[_FOLLOWS]],
        flow.roots[: counts[_ROOTS]],
        flow.uses[: counts[_USES]],
        flow.arrivals[: counts[_ARRIVALS]],
        flow.fetches[: counts[_FETCHES]],
        flow.wires[: counts[_WIRES]],
        flow.outputs,
        flow.weights[: counts[_WEIGHTS]],
        flow.loads[: counts[_LOADS]],
        flow.ends,
    )


@inner_njit
def _room(kernels: KernelTables, ops: OpTables, items: Longs) -> tuple[int, int]:
    """Operands and results of all items."""
    reads, makes = np.int64(0), np.int64(0)
    for kernel in items:
        if kernel < 0:
            reads += 1
            makes += 1
            continue
        first, end = kernels.op_ptr[kernel], kernels.op_ptr[kernel + 1]
        reads += ops.read_ptr[end] - ops.read_ptr[first]
        makes += ops.made_ptr[end] - ops.made_ptr[first]
    return int(reads), int(makes)


# What is called per op counts no references to arrays: that would take longer than all the rest.


@lean_inner_njit
def _walk_chip(
    tables: ProblemTables, placement: LegalisedPartition, flow: Dataflow, walk: _Walk, chip: int
) -> None:
    """Walks through the items of a chip."""
    kernels, ops = tables.kernels, tables.ops
    for item in range(placement.item_ptr[chip], placement.item_ptr[chip + 1]):
        kernel = placement.items[item]
        if kernel < 0:
            _run_relay(tables.tensors, placement, flow, walk, chip, item)
            continue
        flow.item_s[item] = kernels.seconds[kernel]
        for op in range(kernels.op_ptr[kernel], kernels.op_ptr[kernel + 1]):
            _wait_for_operands(tables, placement, flow, walk, chip, item, op)
            if ops.is_view[op]:
                if _is_alias(ops, placement, flow, walk, chip, item, op):
                    continue
                # Memory that no kernel of this chip writes has no send buffer: it is copied.
                flow.item_s[item] += max(ops.copy_s[op] - kernels.seconds[kernel], 0.0)
                walk.marks[ops.made[ops.made_ptr[op]], _COPIED_CHIP] = chip
            _read_memory(ops, flow, walk, chip, item, op)
            _write_results(ops, placement, flow, walk, chip, item, op)


@inlined_njit
def _run_relay(
    tensors: TensorTables,
    placement: LegalisedPartition,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    item: int,
) -> None:
    """A relay receives a tensor and makes a copy of it that leaves."""
    tensor = -1 - placement.items[item]
    value = int(tensors.value[tensor])
    flow.item_s[item] = tensors.relay_s[tensor]
    _receive(placement, flow, walk, chip, value)
    arrival = walk.marks[value, _ARRIVAL]
    _note(walk.last[2], walk.counts, _FETCHES, flow.fetches, item, arrival)
    walk.marks[value, _RELAY] = item
    _add_root(walk.counts, flow.roots, item, value, True)


@inlined_njit
def _wait_for_operands(
    tables: ProblemTables,
    placement: LegalisedPartition,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    item: int,
    op: int,
) -> None:
    """An op waits for the items of its chip that make its operands; others arrive."""
    ops, marks = tables.ops, walk.marks
    for at in range(ops.read_ptr[op], ops.read_ptr[op + 1]):
        value = int(ops.reads[at])
        home = placement.home[value]
        if home in (chip, EVERYWHERE):
            before = marks[value, _MAKER]
            if before != item:
                marks[value, _LEAVING_CHIP] = chip
                _note(walk.last[0], walk.counts, _FOLLOWS, flow.follows, item, before)
        elif marks[value, _ARRIVAL_CHIP] != chip and not tables.values.constant[value]:
            _receive(placement, flow, walk, chip, value)


@inlined_njit
def _is_alias(
    ops: OpTables,
    placement: LegalisedPartition,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    item: int,
    op: int,
) -> bool:
    """Return whether a view only renames its source's memory; if so, it is noted as a view."""
    marks, roots = walk.marks, flow.roots
    view = ops.made[ops.made_ptr[op]]
    source = _root_of(marks, int(ops.reads[ops.read_ptr[op]]), chip)
    written = marks[source, _MADE_CHIP] == chip and marks[source, _COPIED_CHIP] != chip
    if placement.sent[view] and not written:
        return False
    marks[view, _ROOT], marks[view, _ROOT_CHIP] = source, chip
    marks[view, _MAKER] = item
    if placement.sent[view]:
        row = marks[source, _ROW]
        roots[row, ROOT_LEAVES] = 1
        marks[view, _WRITER], marks[view, _SENT_ROW] = roots[row, ROOT_ITEM], row
    return True


@inlined_njit
def _read_memory(ops: OpTables, flow: Dataflow, walk: _Walk, chip: int, item: int, op: int) -> None:
    """Notes the memory that an op reads: of roots on its chip, of arrivals, and of weights."""
    marks, last, counts, roots = walk.marks, walk.last, walk.counts, flow.roots
    for at in range(ops.read_ptr[op], ops.read_ptr[op + 1]):
        root = _root_of(marks, int(ops.reads[at]), chip)
        if marks[root, _MADE_CHIP] == chip:
            row = marks[root, _ROW]
            if roots[row, ROOT_ITEM] == item:
                roots[row, ROOT_READ_INSIDE] = 1
            else:
                _note(last[1], counts, _USES, flow.uses, item, row)
        elif marks[root, _ARRIVAL_CHIP] == chip:
            _note(last[2], counts, _FETCHES, flow.fetches, item, marks[root, _ARRIVAL])
        else:
            row = _store(marks, counts, flow.weights, root, chip)
            _note(last[3], counts, _LOADS, flow.loads, item, row)


@inlined_njit
def _write_results(
    ops: OpTables,
    placement: LegalisedPartition,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    item: int,
    op: int,
) -> None:
    """Each result of an op is a root."""
    marks = walk.marks
    for at in range(ops.made_ptr[op], ops.made_ptr[op + 1]):
        value = int(ops.made[at])
        sent = placement.sent[value]
        marks[value, _MAKER], marks[value, _MADE_CHIP] = item, chip
        marks[value, _ROW] = _add_root(walk.counts, flow.roots, item, value, sent)
        if sent:
            marks[value, _WRITER], marks[value, _SENT_ROW] = item, marks[value, _ROW]


@inlined_njit
def _note(last: Longs, counts: Longs, table: int, rows: Longs, item: int, other: int) -> None:
    """Adds `(item, other)` to a table unless it is there already."""
    if last[other] != item:
        last[other] = item
        row = _next(counts, table)
        rows[row, 0], rows[row, 1] = item, other


@inlined_njit
def _add_root(counts: Longs, roots: Longs, item: int, value: int, leaves: bool) -> int:
    row = _next(counts, _ROOTS)
    roots[row, ROOT_ITEM], roots[row, ROOT_VALUE] = item, value
    roots[row, ROOT_LEAVES], roots[row, ROOT_READ_INSIDE] = leaves, 0
    return row


@inlined_njit
def _next(counts: Longs, table: int) -> int:
    row = int(counts[table])
    counts[table] += 1
    return row


@inlined_njit
def _root_of(marks: Longs, value: int, chip: int) -> int:
    return marks[value, _ROOT] if marks[value, _ROOT_CHIP] == chip else value


@inlined_njit
def _receive(
    placement: LegalisedPartition, flow: Dataflow, walk: _Walk, chip: int, value: int
) -> None:
    """Makes `value` arrive on `chip`: from the relay before, or else from where it is made."""
    marks = walk.marks
    relayed = placement.relays[value, 0] < chip <= placement.relays[value, 1]
    wire = -1 if relayed else marks[value, _WIRE]
    if wire < 0:
        wire = _next(walk.counts, _WIRES)
        flow.wires[wire, 1], flow.wires[wire, 3] = value, 0
        if relayed:
            flow.wires[wire, 0], flow.wires[wire, 2] = chip - 1, marks[value, _RELAY]
            flow.wires[wire, 4] = -1
        else:
            flow.wires[wire, 0] = placement.home[value]
            flow.wires[wire, 2] = marks[value, _WRITER]
            flow.wires[wire, 4] = marks[value, _SENT_ROW]
            marks[value, _WIRE] = wire
    marks[value, _LAST_WIRE] = wire
    row = _next(walk.counts, _ARRIVALS)
    marks[value, _ARRIVAL], marks[value, _ARRIVAL_CHIP] = row, chip
    flow.arrivals[row, 0], flow.arrivals[row, 1] = chip, wire
    flow.arrivals[row, 2] = flow.wires[wire, 3]
    flow.wires[wire, 3] += 1


@inlined_njit
def _store(marks: Longs, counts: Longs, weights: Longs, weight: int, chip: int) -> int:
    """The row of a weight on a chip, which is made where there is none yet."""
    if marks[weight, _WEIGHT_CHIP] != chip:
        row = _next(counts, _WEIGHTS)
        marks[weight, _WEIGHT], marks[weight, _WEIGHT_CHIP] = row, chip
        weights[row, 0], weights[row, 1] = weight, 0
    return int(marks[weight, _WEIGHT])


@inner_njit
def _finish_chip(
    kernels: KernelTables,
    values: ValueTables,
    placement: LegalisedPartition,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    speed: float,
) -> None:
    """Finish the facts that are known once all items of a chip have been seen."""
    if chip == 0:
        for value in values.outputs:
            # A graph output that no op makes is an initializer, and the first chip sends it.
            if placement.home[value] == NOWHERE:
                row = _store(walk.marks, walk.counts, flow.weights, int(value), chip)
                flow.weights[row, 1] = 1
    for item in range(placement.item_ptr[chip], placement.item_ptr[chip + 1]):
        kernel = placement.items[item]
        if kernel >= 0 and kernels.option_begin[kernel] >= 0:
            option = kernels.option_begin[kernel]
            begin = kernels.option_ptr[kernel]
            for at in range(begin, kernels.option_ptr[kernel + 1]):
                if walk.marks[kernels.option_values[at], _LEAVING_CHIP] == chip:
                    option += 1 << (at - begin)
            flow.item_s[item] = max(flow.item_s[item], kernels.option_s[option])
        flow.item_s[item] /= speed
    for table in range(5):
        flow.ends[chip, table] = walk.counts[table]


@inner_njit
def _collect_outputs(
    values: ValueTables, placement: LegalisedPartition, flow: Dataflow, walk: _Walk
) -> None:
    for index in range(len(values.outputs)):
        value = values.outputs[index]
        chip, writer, wire = placement.home[value], walk.marks[value, _WRITER], -1
        row = walk.marks[value, _SENT_ROW]
        if chip == NOWHERE:
            chip, writer = 0, -1
        elif placement.relays[value, 2]:
            wire = walk.marks[value, _LAST_WIRE]
            if placement.relays[value, 0] < placement.relays[value, 1]:
                chip, writer = placement.relays[value, 1] - 1, walk.marks[value, _RELAY]
                row = -1
        flow.outputs[index, 0], flow.outputs[index, 1] = chip, writer
        flow.outputs[index, 2], flow.outputs[index, 3] = wire, row
