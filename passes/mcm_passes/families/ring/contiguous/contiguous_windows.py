"""A problem along one topological order, where a chip is a window of positions.

Position p holds unit `order[p]`; the window `[j, i)` between cuts j and i is one chip. All that a
window costs follows from these arrays in constant time per step of either end. An *item* is
needed once per window however many of its units want it: a weight, a clone, a graph input that the
host sends to every chip. An occurrence counts if it is the last one in the window.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Rows, starts
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import COLLECTED, TO_HOST, dependency_edges
from mcm_passes.mapping.loads.chip_demands import (
    CROSSED,
    LIVE,
    PASSED,
    RECEIVED,
    SENT,
    ChipDemands,
    TensorDemands,
    chip_demands,
)
from mcm_passes.mapping.loads.order_sums import sum_between
from mcm_passes.mapping.problem.resident_sizes import weight_sizes
from mcm_passes.mapping.problem.rule_graph import far_of_cuts


class SharedDemands(NamedTuple):
    """The occurrences of items along the order, by position.

    Attributes:
        ptr: `[n + 1]`, CSR of the occurrences at each position.
        following: next position that has the same item, or n.
        previous: previous position that has the same item, or -1.
        busy_s: chip seconds of the occurrence's item (a clone).
        held: memory of the item.
        host_in_s: host channel seconds of the item (a graph input).
    """

    ptr: Longs
    following: Longs
    previous: Longs
    busy_s: Floats
    held: Longs
    host_in_s: Floats


class Ends(NamedTuple):
    """Tensors that may cross cuts, by the position where they are made or end.

    Attributes:
        ptr: CSR of the tensors of each position.
        other: position of each tensor's other end: the last that reads it, or where it is made.
        relay_s: seconds of one relay of it.
        live: its share of `Windows.live_bytes`.
    """

    ptr: Longs
    other: Longs
    relay_s: Floats
    live: Longs


class Cuts(NamedTuple):
    """Tensors that cross each cut.

    Attributes:
        link_s: `[n + 1]`, link seconds of all that crosses; where the host reaches only the ends
            of the package, as if inputs entered at the first chip and outputs left at the last.
        arriving: `[n + 1]`, its memory on the chip behind the cut.
        leaving: `[n + 1]`, likewise on the chip before it.
        far: `[n + 1]`, one past the last reader of what crosses.
    """

    link_s: Floats
    arriving: Longs
    leaving: Longs
    far: Longs


class CopiedViews(NamedTuple):
    """V views that a window copies if it makes them, they leave it, and it lacks their memory.

    Attributes:
        writer: `[V]`, position that writes the memory, or -1 where none does.
        made: `[V]`, position that makes the view.
        last: `[V]`, the last position that reads it; n where the host does.
        seconds: `[V]`.
        by_writer: `[n]` rows by `writer`.
        by_maker: `[n]` rows by `made`.
        by_last: `[n]` rows by `last`.
    """

    writer: Longs
    made: Longs
    last: Longs
    seconds: Floats
    by_writer: Rows
    by_maker: Rows
    by_last: Rows


class Streaming(NamedTuple):
    """Weights that come from off-package memory.

    Attributes:
        bytes_per_s: rate at which a chip may stream weights beyond its memory, or 0.
        limit_bytes: most that a chip may lack.
        buffer_bytes: buffers of streamed weights, however little is streamed.
        stiff: `[n + 1]`, positions before each cut that use a weight too large to be streamed. A
            window with one streams nothing.
    """

    bytes_per_s: float
    limit_bytes: float
    buffer_bytes: int
    stiff: Longs


class Chips(NamedTuple):
    """The package and the rules.

    Attributes:
        sram_bytes: `[C]`.
        speed: `[C]`, clocks relative to those that `work_s` speaks of.
        most_sram_bytes: of all chips; NumPy's `max` takes long to compile.
        most_speed: likewise.
        packing: factor from the peak of live bytes to their memory; 0 to leave them out.
        alignment: bytes to which that memory is rounded up.
        host_s: least period that the channels of the host allow that there is one of.
        strict: whether a dependency may span at most one chip.
        last_chip: the last of the package.
    """

    sram_bytes: Longs
    speed: Floats
    most_sram_bytes: int
    most_speed: float
    packing: float
    alignment: int
    host_s: float
    strict: bool
    last_chip: int


class Windows(NamedTuple):
    """Arrays over n positions, n + 1 cuts and the occurrences of items.

    Attributes:
        work_s: `[n]`, seconds of each unit.
        pinned: `[n]`, chip that the unit must be on, or -1.
        live_bytes: `[n]`, one slot of all tensors that are live at the position.
        items: what a window needs once.
        out_s: `[n]`, host channel seconds of graph outputs made at the position.
        out_held: `[n]`, memory of their send buffers.
        made: tensors by the position that makes them.
        read: tensors by the position that they end at.
        views: those that may be copied.
        cuts: what crosses them.
        streaming: of weights.
        chips: the package.
    """

    work_s: Floats
    pinned: Ints
    live_bytes: Longs
    items: SharedDemands
    out_s: Floats
    out_held: Longs
    made: Ends
    read: Ends
    views: CopiedViews
    cuts: Cuts
    streaming: Streaming
    chips: Chips


def windows_along(
    problem: PartitionProblem,
    order: Ints,
    *,
    count_live: bool = True,
    stream_share: float = 0.0,
    stream_most: int | None = None,
) -> Windows:
    """The windows of `problem` along `order`.

    Memory is never less than what the analytic model says of the same partition: what is live in a
    window alone is estimated from above. With `count_live` off, it is left out, and memory is
    never more than what the analytic model says.

    Args:
        problem: the problem.
        order: `[n]`, the units that are not clonable in a topological order.
        count_live: whether activations count.
        stream_share: most that a chip may lack, as a share of the largest chip's memory.
        stream_most: bytes of the largest weight that may be streamed, or None for any.
    """
    n, limits = order.size, problem.limits
    block = limits.buffer_alignment_bytes
    d = chip_demands(problem.reached(), order, own_buffers=True)
    tensors = d.tensors
    # What travels between chips, from the position that makes it to the last one.
    moving = np.flatnonzero(tensors.last >= 0)
    first, final = tensors.producer[moving].astype(np.int64), tensors.last[moving]
    passed_s = tensors.passed_s[moving]
    live = block * tensors.amount[moving, LIVE]
    cuts, host_s = _cuts(d, moving, limits.link_bytes_per_s, block), d.host_s
    if limits.at_ends:
        crossing, most = _host_traffic(problem, order)
        cuts = cuts._replace(link_s=cuts.link_s + crossing / limits.link_bytes_per_s)
        host_s = max(host_s, most / limits.host_bytes_per_s)
    largest = 0
    if stream_most is not None:
        sizes = weight_sizes(problem)
        largest = int(sizes[sizes <= stream_most].max(initial=0))
    return Windows(
        work_s=d.nodes.work_s,
        pinned=d.nodes.pinned,
        live_bytes=sum_between(live, first, final, n)[:n],
        items=_shared_demands(d, limits.host_bytes_per_s, block),
        out_s=d.nodes.out_bytes / limits.host_bytes_per_s,
        out_held=block * d.nodes.out_room,
        made=_ends(first, final, passed_s, live, n),
        read=_ends(final, first, passed_s, live, n),
        views=_copied_views(tensors, n),
        cuts=cuts,
        streaming=Streaming(
            bytes_per_s=limits.stream_bytes_per_s,
            limit_bytes=stream_share * max(limits.sram_bytes),
            buffer_bytes=limits.stream_buffers * largest,
            stiff=_stiff_positions(d, block, stream_most),
        ),
        chips=Chips(
            sram_bytes=np.array(limits.sram_bytes, dtype=np.int64),
            speed=problem.chip_speed,
            most_sram_bytes=max(limits.sram_bytes),
            most_speed=float(problem.chip_speed.max()),
            packing=limits.activation_packing if count_live else 0.0,
            alignment=block,
            host_s=host_s,
            strict=problem.routing == "strict",
            last_chip=limits.last_chip,
        ),
    )


def _ends(at: Longs, other: Longs, relay_s: Floats, live: Longs, n: int) -> Ends:
    """Tensors by the position of one end."""
    order = np.argsort(at, kind="stable")
    ptr = np.searchsorted(at[order], np.arange(n + 1))
    return Ends(ptr, other[order], relay_s[order], live[order])


def _copied_views(tensors: TensorDemands, n: int) -> CopiedViews:
    """The views that may be copied, with positions for nodes."""
    rows = tensors.copied
    writer, made = (ends[rows].astype(np.int64) for ends in (tensors.writer, tensors.producer))
    last = np.where(tensors.kind[rows] & TO_HOST, n, tensors.last[rows])
    ends = [(at, (at >= 0) & (at < n)) for at in (writer, made, last)]
    by = [Rows(starts(there.astype(np.int64)), at[there]).transposed(n) for at, there in ends]
    return CopiedViews(writer, made, last, tensors.copied_s[rows], *by)


def _host_traffic(problem: PartitionProblem, order: Ints) -> tuple[Longs, int]:
    """Bytes between the host and other chips that cross each cut, and the most on one host channel.

    As if inputs entered at the first chip and outputs left at the last. At cut n stands what leaves
    over the links behind the last used chip.
    """
    tensors, n = chip_demands(problem, order).tensors, order.size
    inputs = np.flatnonzero((tensors.producer < 0) & (tensors.last >= 0))
    outputs = np.flatnonzero(tensors.kind & COLLECTED)
    entered, exited = tensors.amount[inputs, CROSSED], tensors.amount[outputs, CROSSED]
    # What is read beyond a cut crosses it already.
    since = np.maximum(tensors.producer, tensors.last)[outputs] + 1
    crossing = sum_between(entered, np.zeros_like(inputs), tensors.last[inputs], n)
    crossing += sum_between(exited, since, np.full_like(outputs, n), n)
    return crossing, max(int(entered.sum()), int(exited.sum()))


def _cuts(d: ChipDemands, moving: Longs, link_bytes_per_s: float, block: int) -> Cuts:
    """Tensors that cross cuts.

    Args:
        d: the demands, with positions for nodes.
        moving: the tensors that may cross.
        link_bytes_per_s: of each link.
        block: bytes of memory in a block.
    """
    amount, n = d.tensors.amount[moving], d.nodes.work_s.size
    made, last = d.tensors.producer[moving].astype(np.int64), d.tensors.last[moving]
    # The chip before a cut made the tensor or passes it on.
    leaves = np.maximum(amount[:, SENT], amount[:, PASSED])
    crossed = sum_between(amount[:, CROSSED], made + 1, last, n)
    arriving = block * sum_between(amount[:, RECEIVED], made + 1, last, n)
    leaving = block * sum_between(leaves, made + 1, last, n)
    return Cuts(crossed / link_bytes_per_s, arriving, leaving, far_of_cuts(made, last, n))


def _stiff_positions(d: ChipDemands, block: int, most: int | None) -> Longs:
    counts = np.zeros(d.nodes.work_s.size + 1, dtype=np.int64)
    if most is not None:
        stiff = np.flatnonzero(block * d.items.weight > most)
        np.add.at(counts, d.items.users.chosen(stiff).entries + 1, 1)
    return np.cumsum(counts)


def _shared_demands(d: ChipDemands, host_bytes_per_s: float, block: int) -> SharedDemands:
    """The occurrences of items, sorted by position and then by item."""
    item, where = d.items.users.owners, d.items.users.entries
    # Whether each occurrence is the last of its item.
    ends = np.append(item[1:] != item[:-1], True)[: item.size]
    following = np.where(ends, d.nodes.work_s.size, np.roll(where, -1))
    previous = np.where(np.roll(ends, 1), -1, np.roll(where, 1))
    by_position = np.argsort(where, kind="stable")
    item = item[by_position]
    return SharedDemands(
        ptr=d.nodes.items.ptr,
        following=following[by_position],
        previous=previous[by_position],
        busy_s=d.items.busy_s[item],
        held=block * (d.items.held + d.items.weight)[item],
        host_in_s=d.items.in_bytes[item] / host_bytes_per_s,
    )


def chips_from_cuts(problem: PartitionProblem, order: Ints, cuts: Longs) -> Ints:
    """`[N]`, the partition whose chip k holds positions `[cuts[k], cuts[k + 1])` of `order`."""
    chip_of = np.zeros(problem.num_units, dtype=np.int32)
    chip_of[order] = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    return chip_of


def all_partitions(problem: PartitionProblem, most: int) -> Ints | None:
    """`[B, N]`, all partitions that no dependency forbids; None where they are more than `most`.

    Units are in a topological order, so that a unit's place is bounded by those before it.
    """
    units = int((~problem.clonable).sum())
    # Dependencies forbid most where they are a chain: its cuts into 1, 2, ... pieces.
    if sum(comb(units - 1, k) for k in range(min(problem.num_chips, units))) > most:
        return None
    source, target = dependency_edges(problem)
    rows = np.zeros((1, problem.num_units), np.int32)
    for u in np.flatnonzero(~problem.clonable).tolist():
        least = rows[:, source[target == u]].max(axis=1, initial=0)
        choices = problem.num_chips - least
        count = int(choices.sum())
        if count > most * problem.num_chips:
            return None
        first = np.cumsum(choices) - choices
        rows = np.repeat(rows, choices, axis=0)
        rows[:, u] = np.arange(count) - np.repeat(first - least, choices)
    used = np.zeros((len(rows), problem.num_chips), np.bool_)
    fixed = np.flatnonzero(~problem.clonable)
    used[np.repeat(np.arange(len(rows)), fixed.size), rows[:, fixed].ravel()] = True
    rows = rows[used.sum(axis=1) == rows[:, fixed].max(axis=1) + 1]
    return rows if 0 < len(rows) <= most else None


MOST_TRIED = 2_000
"""Partitions that are all tried where what a chip takes depends on other chips' units."""


def tried_partitions(problem: PartitionProblem) -> Ints:
    """`[B, N]`, all partitions where the host reaches only the ends of the package.

    What crosses links then depends on what the first and the last chip hold, which cuts of orders
    and chains of ideals do not know of. None where these know all, or of which there are too many.
    """
    rows = all_partitions(problem, MOST_TRIED) if problem.limits.at_ends else None
    return np.zeros((0, problem.num_units), np.int32) if rows is None else rows
