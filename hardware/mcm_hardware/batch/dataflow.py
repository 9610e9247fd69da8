"""Where the tensors of every chip live and travel: splitting and lowering, as compiled code.

What `mcm_compiler.ir.splitter` and `chip_dataflow.py` find out by walking through one ONNX model
per chip is found here by one walk through the tables. A value of the original graph stands for
all its copies: a chip has at most one that it makes itself and one that arrives. What a relay
makes is known by the relay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Bools, Floats, Ints, Longs
from mcm_hardware.batch.placement import Placement
from mcm_hardware.batch.problem_tables import ProblemTables

_HOST = -1


class Dataflow(NamedTuple):
    """Items (kernels and relays as placed) of all chips, and the memory between them.

    A *root* is a value whose memory is written on a chip, as in `chip_dataflow.ChipDataflow`; an
    *arrival* is a tensor that comes to a chip; a *wire* is a tensor with all chips that it goes to
    from one that makes it.

    Attributes:
        item_s: `[I]`, durations.
        follow_before: `[F]`, item that another one waits for on the same chip.
        follow_after: `[F]`, the one that waits; ascending.
        follow_ptr: `[num_used + 1]`, by chip.
        root_writer: `[R]`, item; ascending.
        root_value: `[R]`.
        root_leaves: `[R]`, whether it is sent.
        root_read_inside: `[R]`, whether its own writer reads it.
        root_ptr: `[num_used + 1]`, by chip.
        use_root: `[U]`, a root that another item than its writer reads.
        use_item: `[U]`, that item; ascending.
        use_ptr: `[num_used + 1]`, by chip.
        arrival_wire: `[A]`.
        arrival_place: `[A]`, how many chips the wire goes to before.
        arrival_chip: `[A]`, ascending.
        fetch_arrival: `[G]`, an arrival that an item reads.
        fetch_item: `[G]`, that item.
        wire_value: `[W]`.
        wire_source: `[W]`, chip or host.
        wire_writer: `[W]`, item that makes it, or -1.
        wire_count: `[W]`, chips that it goes to.
        output_source: `[Y]`, chip that sends a graph output to the host.
        output_writer: `[Y]`, item that makes it, or -1.
        weight_room: `[num_used]`, bytes of weights, aligned.
        channel_room: `[num_used]`, bytes of one slot of all receive and send buffers, aligned.
    """

    item_s: Floats
    follow_before: Longs
    follow_after: Longs
    follow_ptr: Longs
    root_writer: Longs
    root_value: Longs
    root_leaves: Bools
    root_read_inside: Bools
    root_ptr: Longs
    use_root: Longs
    use_item: Longs
    use_ptr: Longs
    arrival_wire: Longs
    arrival_place: Longs
    arrival_chip: Longs
    fetch_arrival: Longs
    fetch_item: Longs
    wire_value: Longs
    wire_source: Longs
    wire_writer: Longs
    wire_count: Longs
    output_source: Longs
    output_writer: Longs
    weight_room: Longs
    channel_room: Longs


class _Walk(NamedTuple):
    """What the walk knows at the item it is at. Marks hold the chip for which an entry counts.

    Attributes:
        maker: `[V]`, last item on the chip that makes a value.
        root: `[V]`, the value whose memory holds a value, where `root_mark` says so.
        root_index: `[V]`, index of a root, where `made_mark` says so.
        arrival: `[V]`, index of an arrival, where `arrival_mark` says so.
        leaving_mark: `[V]`, chips on which another kernel reads a value.
        weight_mark: `[V]`, chips on which a value is stored as a weight.
        home_writer: `[V]`, item that makes a value that is sent.
        home_wire: `[V]`, wire from the chip that makes a value, or -1.
        relay_item: `[V]`, the last relay of a value.
        last_follow: `[I]`, the last item that waits for an item.
        last_use: `[R]`, the last item that reads a root.
        last_fetch: `[A]`, the last item that reads an arrival.
        counts: follow, root, use, arrival, fetch, wire so far.
    """

    maker: Longs
    root: Longs
    root_mark: Longs
    root_index: Longs
    made_mark: Longs
    arrival: Longs
    arrival_mark: Longs
    leaving_mark: Longs
    weight_mark: Longs
    home_writer: Longs
    home_wire: Longs
    relay_item: Longs
    last_follow: Longs
    last_use: Longs
    last_fetch: Longs
    counts: Longs


_FOLLOW, _ROOT, _USE, _ARRIVAL, _FETCH, _WIRE = range(6)


@njit(nogil=True, cache=True)
def follow_tensors(
    tables: ProblemTables, placement: Placement, chip_of: Ints, speed: Floats
) -> Dataflow:
    """The dataflow of all chips.

    Args:
        tables: the problem.
        placement: from `place`.
        chip_of: `[N]`, as there.
        speed: `[C]`, of each chip.
    """
    flow, walk = _empty(tables, placement)
    for chip in range(placement.num_used):
        for item in range(placement.item_ptr[chip], placement.item_ptr[chip + 1]):
            kernel = placement.items[item]
            if kernel < 0:
                _walk_relay(tables, placement, chip_of, flow, walk, chip, item, -1 - kernel)
            else:
                _walk_kernel(tables, placement, chip_of, flow, walk, chip, item, kernel)
        _finish_chip(tables, placement, flow, walk, chip, speed[chip])
    _collect_outputs(tables, placement, chip_of, flow, walk)
    return _trimmed(flow, walk.counts)


@njit(nogil=True, cache=True)
def _empty(tables: ProblemTables, placement: Placement) -> tuple[Dataflow, _Walk]:
    num_values = len(tables.value_bytes)
    num_items, num_used = len(placement.items), placement.num_used
    reads, makes = 0, 0
    for kernel in placement.items:
        if kernel < 0:
            reads += 1
        else:
            first, end = tables.op_ptr[kernel], tables.op_ptr[kernel + 1]
            reads += tables.read_ptr[end] - tables.read_ptr[first]
            makes += tables.made_ptr[end] - tables.made_ptr[first]
    flow = Dataflow(
        np.zeros(num_items),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.zeros(num_used + 1, np.int64),
        np.empty(makes, np.int64),
        np.empty(makes, np.int64),
        np.zeros(makes, np.bool_),
        np.zeros(makes, np.bool_),
        np.zeros(num_used + 1, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.zeros(num_used + 1, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.empty(reads, np.int64),
        np.zeros(reads, np.int64),
        np.empty(len(tables.output_values), np.int64),
        np.empty(len(tables.output_values), np.int64),
        np.zeros(num_used, np.int64),
        np.zeros(num_used, np.int64),
    )
    walk = _Walk(
        np.empty(num_values, np.int64),
        np.empty(num_values, np.int64),
        np.full(num_values, -1),
        np.empty(num_values, np.int64),
        np.full(num_values, -1),
        np.empty(num_values, np.int64),
        np.full(num_values, -1),
        np.full(num_values, -1),
        np.full(num_values, -1),
        np.full(num_values, -1),
        np.full(num_values, -1),
        np.full(num_values, -1),
        np.full(num_items, -1),
        np.full(makes, -1),
        np.full(reads, -1),
        np.zeros(6, np.int64),
    )
    return flow, walk


@njit(nogil=True, cache=True)
def _walk_relay(
    tables: ProblemTables,
    placement: Placement,
    chip_of: Ints,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    item: int,
    tensor: int,
) -> None:
    value = tables.tensor_value[tensor]
    _receive(tables, placement, chip_of, flow, walk, chip, value)
    _fetch(flow, walk, value, item)
    walk.relay_item[value] = item
    flow.item_s[item] = tables.relay_s[tensor]
    flow.channel_room[chip] += tables.value_room[value]


@njit(nogil=True, cache=True)
def _walk_kernel(
    tables: ProblemTables,
    placement: Placement,
    chip_of: Ints,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    item: int,
    kernel: int,
) -> None:
    flow.item_s[item] = tables.kernel_s[kernel]
    for op in range(tables.op_ptr[kernel], tables.op_ptr[kernel + 1]):
        begin, end = tables.read_ptr[op], tables.read_ptr[op + 1]
        for at in range(begin, end):
            value = tables.read_values[at]
            if _made_on(tables, chip_of, value, chip):
                before = walk.maker[value]
                if before != item:
                    walk.leaving_mark[value] = chip
                    _follow(flow, walk, before, item)
            elif walk.arrival_mark[value] != chip and not tables.value_constant[value]:
                _receive(tables, placement, chip_of, flow, walk, chip, value)
        if tables.is_view[op]:
            view = tables.made_values[tables.made_ptr[op]]
            source = _root_of(walk, tables.read_values[begin], chip)
            leaves = _leaves(tables, placement, view)
            if walk.made_mark[source] == chip or not leaves:
                walk.root[view] = source
                walk.root_mark[view] = chip
                walk.maker[view] = item
                if leaves:
                    flow.root_leaves[walk.root_index[source]] = True
                    walk.home_writer[view] = flow.root_writer[walk.root_index[source]]
                continue
            # Memory that no kernel of this chip writes has no send buffer, so that it is copied.
            flow.item_s[item] = max(flow.item_s[item], tables.copy_s[op])
        for at in range(begin, end):
            _use(tables, flow, walk, _root_of(walk, tables.read_values[at], chip), chip, item)
        for at in range(tables.made_ptr[op], tables.made_ptr[op + 1]):
            value = tables.made_values[at]
            walk.maker[value] = item
            walk.made_mark[value] = chip
            index = walk.counts[_ROOT]
            walk.counts[_ROOT] += 1
            walk.root_index[value] = index
            flow.root_writer[index] = item
            flow.root_value[index] = value
            if _leaves(tables, placement, value):
                flow.root_leaves[index] = True
                walk.home_writer[value] = item


@njit(nogil=True, cache=True)
def _made_on(tables: ProblemTables, chip_of: Ints, value: int, chip: int) -> bool:
    """Whether an op on `chip`, or a copy of it, makes `value`; one of its readers is there."""
    unit = tables.value_unit[value]
    return unit >= 0 and (tables.clone_row[unit] >= 0 or chip_of[unit] == chip)


@njit(nogil=True, cache=True)
def _leaves(tables: ProblemTables, placement: Placement, value: int) -> bool:
    return placement.sent[value] and tables.clone_row[tables.value_unit[value]] < 0


@njit(nogil=True, cache=True)
def _root_of(walk: _Walk, value: int, chip: int) -> int:
    return walk.root[value] if walk.root_mark[value] == chip else value


@njit(nogil=True, cache=True)
def _follow(flow: Dataflow, walk: _Walk, before: int, after: int) -> None:
    if walk.last_follow[before] != after:
        walk.last_follow[before] = after
        index = walk.counts[_FOLLOW]
        walk.counts[_FOLLOW] += 1
        flow.follow_before[index] = before
        flow.follow_after[index] = after


@njit(nogil=True, cache=True)
def _receive(
    tables: ProblemTables,
    placement: Placement,
    chip_of: Ints,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    value: int,
) -> None:
    """Makes `value` arrive on `chip`: from the relay before, or else from where it is made."""
    relayed = placement.relay_begin[value] < chip <= placement.relay_end[value]
    wire = -1 if relayed else walk.home_wire[value]
    if wire < 0:
        wire = walk.counts[_WIRE]
        walk.counts[_WIRE] += 1
        flow.wire_value[wire] = value
        unit = tables.value_unit[value]
        if relayed:
            flow.wire_source[wire] = chip - 1
            flow.wire_writer[wire] = walk.relay_item[value]
        else:
            flow.wire_source[wire] = _HOST if unit < 0 else np.int64(chip_of[unit])
            flow.wire_writer[wire] = walk.home_writer[value]
            walk.home_wire[value] = wire
    index = walk.counts[_ARRIVAL]
    walk.counts[_ARRIVAL] += 1
    walk.arrival[value] = index
    walk.arrival_mark[value] = chip
    flow.arrival_wire[index] = wire
    flow.arrival_place[index] = flow.wire_count[wire]
    flow.arrival_chip[index] = chip
    flow.wire_count[wire] += 1
    flow.channel_room[chip] += tables.value_room[value]


@njit(nogil=True, cache=True)
def _use(
    tables: ProblemTables, flow: Dataflow, walk: _Walk, root: int, chip: int, item: int
) -> None:
    """Notes that `item` reads the memory of `root`: made here, arrived, or a weight."""
    if walk.made_mark[root] == chip:
        index = walk.root_index[root]
        if flow.root_writer[index] == item:
            flow.root_read_inside[index] = True
        elif walk.last_use[index] != item:
            walk.last_use[index] = item
            at = walk.counts[_USE]
            walk.counts[_USE] += 1
            flow.use_root[at] = index
            flow.use_item[at] = item
    elif walk.arrival_mark[root] == chip:
        _fetch(flow, walk, root, item)
    else:
        _store(tables, flow, walk, root, chip)


@njit(nogil=True, cache=True)
def _fetch(flow: Dataflow, walk: _Walk, value: int, item: int) -> None:
    index = walk.arrival[value]
    if walk.last_fetch[index] != item:
        walk.last_fetch[index] = item
        at = walk.counts[_FETCH]
        walk.counts[_FETCH] += 1
        flow.fetch_arrival[at] = index
        flow.fetch_item[at] = item


@njit(nogil=True, cache=True)
def _store(tables: ProblemTables, flow: Dataflow, walk: _Walk, weight: int, chip: int) -> None:
    if walk.weight_mark[weight] != chip:
        walk.weight_mark[weight] = chip
        flow.weight_room[chip] += tables.value_room[weight]


@njit(nogil=True, cache=True)
def _finish_chip(
    tables: ProblemTables,
    placement: Placement,
    flow: Dataflow,
    walk: _Walk,
    chip: int,
    speed: float,
) -> None:
    """What is known once all items of a chip have been seen."""
    if chip == 0:
        for value in tables.output_values:
            # A graph output that no op makes is an initializer, and the first chip sends it.
            if tables.value_unit[value] < 0:
                _store(tables, flow, walk, value, chip)
    for item in range(placement.item_ptr[chip], placement.item_ptr[chip + 1]):
        kernel = placement.items[item]
        if kernel >= 0 and tables.option_begin[kernel] >= 0:
            option = tables.option_begin[kernel]
            begin = tables.option_ptr[kernel]
            for at in range(begin, tables.option_ptr[kernel + 1]):
                if walk.leaving_mark[tables.option_values[at]] == chip:
                    option += 1 << (at - begin)
            flow.item_s[item] = max(flow.item_s[item], tables.option_s[option])
        flow.item_s[item] /= speed
    for index in range(flow.root_ptr[chip], walk.counts[_ROOT]):
        if flow.root_leaves[index]:
            flow.channel_room[chip] += tables.value_room[flow.root_value[index]]
    flow.follow_ptr[chip + 1] = walk.counts[_FOLLOW]
    flow.root_ptr[chip + 1] = walk.counts[_ROOT]
    flow.use_ptr[chip + 1] = walk.counts[_USE]


@njit(nogil=True, cache=True)
def _collect_outputs(
    tables: ProblemTables, placement: Placement, chip_of: Ints, flow: Dataflow, walk: _Walk
) -> None:
    last = placement.num_used - 1
    for index in range(len(tables.output_values)):
        value = tables.output_values[index]
        unit = tables.value_unit[value]
        if unit < 0:
            flow.output_source[index], flow.output_writer[index] = 0, -1
        elif placement.relay_begin[value] <= last < placement.relay_end[value]:
            flow.output_source[index] = last
            flow.output_writer[index] = walk.relay_item[value]
        else:
            flow.output_source[index] = chip_of[unit]
            flow.output_writer[index] = walk.home_writer[value]


@njit(nogil=True, cache=True)
def _trimmed(flow: Dataflow, counts: Longs) -> Dataflow:
    follows, roots, uses = counts[_FOLLOW], counts[_ROOT], counts[_USE]
    arrivals, fetches, wires = counts[_ARRIVAL], counts[_FETCH], counts[_WIRE]
    return Dataflow(
        flow.item_s,
        flow.follow_before[:follows],
        flow.follow_after[:follows],
        flow.follow_ptr,
        flow.root_writer[:roots],
        flow.root_value[:roots],
        flow.root_leaves[:roots],
        flow.root_read_inside[:roots],
        flow.root_ptr,
        flow.use_root[:uses],
        flow.use_item[:uses],
        flow.use_ptr,
        flow.arrival_wire[:arrivals],
        flow.arrival_place[:arrivals],
        flow.arrival_chip[:arrivals],
        flow.fetch_arrival[:fetches],
        flow.fetch_item[:fetches],
        flow.wire_value[:wires],
        flow.wire_source[:wires],
        flow.wire_writer[:wires],
        flow.wire_count[:wires],
        flow.output_source,
        flow.output_writer,
        flow.weight_room,
        flow.channel_room,
    )
