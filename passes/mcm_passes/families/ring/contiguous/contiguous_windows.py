"""A problem along one topological order, where a chip is a window of positions.

Position p holds unit `order[p]`; the window `[j, i)` between cuts j and i is one chip. All that a
window costs follows from these arrays in constant time per step of either end. What is needed
once per window however many of its units want it (a weight, a clone, a graph input that the host
sends to every chip) is an *item*: an occurrence counts if it is the last one in the window.
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
    TO_HOST,
)
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
from mcm_passes.partitioning.rooms import weight_rooms


class Windows(NamedTuple):
    """Arrays over n positions, n + 1 cuts and the occurrences of items.

    Attributes:
        work_s: `[n]`, seconds of each unit.
        pinned: `[n]`, chip that the unit must be on, or -1.
        item_ptr: `[n + 1]`, occurrences of items at each position.
        item_next: next position that has the same item, or n.
        item_previous: previous position that has the same item, or -1.
        item_s: chip seconds of the occurrence's item (a clone).
        item_bytes: memory of the item.
        item_in_s: host channel seconds of the item (a graph input).
        out_s: `[n]`, host channel seconds of graph outputs made at the position.
        out_bytes: `[n]`, memory of their send buffers.
        live_bytes: `[n]`, one slot of all tensors that are live at the position.
        packing: factor from the peak of live bytes to their memory; 0 to leave them out.
        alignment: bytes to which that memory is rounded up.
        link_s: `[n + 1]`, link seconds of what crosses each cut.
        arriving_bytes: `[n + 1]`, memory for all that crosses each cut on the chip behind it.
        leaving_bytes: `[n + 1]`, likewise on the chip before it.
        far: `[n + 1]`, one past the last reader of what crosses each cut.
        made_ptr: `[n + 2]`, entry p + 1: tensors made at position p; entry 0: sent by the host.
        made_last: last position that each such tensor must reach, n for the last chip.
        made_relay_s: seconds of one relay of it.
        made_bytes: its share of `live_bytes`, 0 for the host's.
        read_ptr: `[n + 1]`, tensors that end at each position.
        read_from: position where each such tensor was made, -1 for the host.
        read_relay_s: seconds of one relay of it.
        read_bytes: its share of `live_bytes`, 0 for the host's.
        entry_bytes: further memory of the first chip.
        exit_bytes: further memory of the last chip.
        host_s: least period that those channels of the host allow that there is one of: where only
            the ends have one, and where all chips share one.
        sram_bytes: `[C]`.
        speed: `[C]`, clocks relative to those that `work_s` speaks of.
        stream_bytes_per_s: rate at which weights beyond `sram_bytes` may be streamed, or 0.
        stream_limit_bytes: most that a chip may lack.
        stiff: `[n + 1]`, positions before each cut that use a weight too large to be streamed. A
            window with one streams nothing.
        stream_buffer_bytes: buffers of streamed weights, however little is streamed.
        strict: whether a dependency may span at most one chip.
    """

    work_s: Floats
    pinned: Ints
    item_ptr: Longs
    item_next: Longs
    item_previous: Longs
    item_s: Floats
    item_bytes: Longs
    item_in_s: Floats
    out_s: Floats
    out_bytes: Longs
    live_bytes: Longs
    packing: float
    alignment: int
    link_s: Floats
    arriving_bytes: Longs
    leaving_bytes: Longs
    far: Longs
    made_ptr: Longs
    made_last: Longs
    made_relay_s: Floats
    made_bytes: Longs
    read_ptr: Longs
    read_from: Longs
    read_relay_s: Floats
    read_bytes: Longs
    entry_bytes: int
    exit_bytes: int
    host_s: float
    sram_bytes: Longs
    speed: Floats
    stream_bytes_per_s: float
    stream_limit_bytes: float
    stiff: Longs
    stream_buffer_bytes: int
    strict: bool


def windows_along(
    problem: PartitionProblem,
    order: Ints,
    *,
    count_live: bool = True,
    stream_share: float = 0.0,
    stream_most: int | None = None,
) -> Windows:
    """The windows of `problem` along `order`.

    Memory is never less than what the fast model says of the same partition: what is live in a
    window alone is estimated from above. With `count_live` off, it is left out, and memory is
    never more than what the fast model says.

    Args:
        problem: the problem.
        order: `[n]`, the units that are not clonable in a topological order.
        count_live: whether activations count.
        stream_share: most that a chip may lack, as a share of the largest chip's memory.
        stream_most: bytes of the largest weight that may be streamed, or None for any.
    """
    n = order.size
    limits = problem.limits
    ends = limits.host_io == "ends"
    position = np.full(problem.num_units, -1, dtype=np.int64)
    position[order] = np.arange(n)
    table = demand_table(problem, own_buffers=True)
    kinds, amount, passed_s = tensor_columns(table)

    made, last_reader = _crossing_tensors(problem, kinds, position)
    from_host, collected = kinds & FROM_HOST > 0, kinds & COLLECTED > 0
    read = last_reader >= 0
    last = np.where(collected, n, last_reader)
    moves = (kinds & (CLONED | EVERYWHERE) == 0) & (read | collected)
    out = np.flatnonzero(kinds & TO_HOST)
    arrives = np.flatnonzero(from_host & read)

    out_s, out_bytes = np.zeros(n), np.zeros(n, dtype=np.int64)
    host_s, entry_bytes, exit_bytes = 0.0, 0, 0
    entered_s = amount[:, ENTERED] / limits.host_bytes_per_s
    exited_s = amount[:, EXITED] / limits.host_bytes_per_s
    if ends:
        host_s = max(float(entered_s[arrives].sum()), float(exited_s[out].sum()))
        entry_bytes = int(amount[arrives, RECEIVED].sum())
        exit_bytes = int(amount[out, SENT].sum())
    host_s = max(
        host_s, least_at_root(table, problem.placed_readers) / limits.host_root_bytes_per_s
    )
    if not ends:
        np.add.at(out_s, made[out], exited_s[out])
        np.add.at(out_bytes, made[out], amount[out, SENT])

    moving = np.flatnonzero(moves)
    first, final = made[moving], last[moving]
    far = np.arange(n + 1, dtype=np.int64)
    between = np.flatnonzero((made >= 0) & read)
    np.maximum.at(far, made[between] + 1, last_reader[between] + 1)
    held = np.flatnonzero(moves & (made >= 0))
    live = _sum_between(amount[held, LIVE], made[held], np.minimum(last[held], n - 1) + 1, n + 1)[
        :n
    ]
    by_made = np.argsort(first, kind="stable")
    by_last = np.argsort(final, kind="stable")
    by_last = by_last[final[by_last] < n]
    items = _items(problem, position, n)
    begin, end = first + 1, final + 1
    leaving = np.where(from_host, amount[:, PASSED], np.maximum(amount[:, SENT], amount[:, PASSED]))
    return Windows(
        work_s=problem.compute_s[order],
        pinned=problem.pinned_chip[order],
        item_ptr=items.ptr,
        item_next=items.following,
        item_previous=items.previous,
        item_s=items.seconds,
        item_bytes=items.memory,
        item_in_s=items.in_seconds,
        out_s=out_s,
        out_bytes=out_bytes,
        live_bytes=live,
        packing=limits.activation_packing if count_live else 0.0,
        alignment=limits.buffer_alignment_bytes,
        link_s=_sum_between(amount[moving, CROSSED], begin, end, n + 2)[: n + 1]
        / limits.link_bytes_per_s,
        arriving_bytes=_sum_between(amount[moving, RECEIVED], begin, end, n + 2)[: n + 1],
        leaving_bytes=_sum_between(leaving[moving], begin, end, n + 2)[: n + 1],
        far=np.maximum.accumulate(far),
        made_ptr=np.searchsorted(first[by_made], np.arange(-1, n + 1)),
        made_last=final[by_made],
        made_relay_s=passed_s[moving][by_made],
        made_bytes=np.where(first >= 0, amount[moving, LIVE], 0)[by_made],
        read_ptr=np.searchsorted(final[by_last], np.arange(n + 1)),
        read_from=first[by_last],
        read_relay_s=passed_s[moving][by_last],
        read_bytes=np.where(first >= 0, amount[moving, LIVE], 0)[by_last],
        entry_bytes=entry_bytes,
        exit_bytes=exit_bytes,
        host_s=host_s,
        sram_bytes=np.array(limits.sram_bytes, dtype=np.int64),
        speed=problem.chip_speed,
        stream_bytes_per_s=limits.stream_bytes_per_s,
        stream_limit_bytes=stream_share * max(limits.sram_bytes),
        stiff=_stiff_positions(problem, position, n, stream_most),
        stream_buffer_bytes=limits.stream_buffers * _largest_streamed(problem, stream_most),
        strict=problem.routing == "strict",
    )


def _largest_streamed(problem: PartitionProblem, most: int | None) -> int:
    sizes = weight_rooms(problem)
    return int(sizes[sizes <= most].max(initial=0)) if most is not None else 0


def _stiff_positions(problem: PartitionProblem, position: Longs, n: int, most: int | None) -> Longs:
    counts = np.zeros(n + 1, dtype=np.int64)
    if most is not None:
        stiff = np.flatnonzero(weight_rooms(problem) > most)
        np.add.at(counts, position[problem.placed_weight_users.chosen(stiff).entries] + 1, 1)
    return np.cumsum(counts)


def _crossing_tensors(
    problem: PartitionProblem, kinds: Longs, position: Longs
) -> tuple[Longs, Longs]:
    """Where each tensor is made (-1: host, -2: by a clonable unit) and read last (-1: nowhere)."""
    cloned = kinds & CLONED > 0
    made = np.where(kinds & FROM_HOST, -1, position[problem.tensor_producer])
    made[cloned] = -2
    last = np.full(made.size, -1, dtype=np.int64)
    readers = problem.placed_readers
    np.maximum.at(last, readers.owners, position[readers.entries])
    last[cloned] = -1
    return made.astype(np.int64), last


def _sum_between(values: Longs, begin: Longs, end: Longs, size: int) -> Longs:
    """`[size]`, at each index the sum of the values whose range `[begin, end)` covers it."""
    steps = np.zeros(size, dtype=np.int64)
    np.add.at(steps, begin, values)
    np.subtract.at(steps, np.minimum(end, size - 1), values)
    return np.cumsum(steps)


class _Items(NamedTuple):
    ptr: Longs
    following: Longs
    previous: Longs
    seconds: Floats
    memory: Longs
    in_seconds: Floats


def _items(problem: PartitionProblem, position: Longs, n: int) -> _Items:
    """The occurrences of items, sorted by position and then by item."""
    found = shared_items(problem, demand_table(problem))
    item = found.users.owners
    where = position[found.users.entries]
    by_item = np.lexsort((where, item))
    item, where = item[by_item], where[by_item]
    following = np.full(where.size, n, dtype=np.int64)
    previous = np.full(where.size, -1, dtype=np.int64)
    same = np.flatnonzero(item[1:] == item[:-1])
    following[same] = where[same + 1]
    previous[same + 1] = where[same]
    by_position = np.argsort(where, kind="stable")
    item = item[by_position]
    return _Items(
        ptr=np.searchsorted(where[by_position], np.arange(n + 1)),
        following=following[by_position],
        previous=previous[by_position],
        seconds=found.busy_s[item],
        memory=(found.held + found.weight)[item],
        in_seconds=found.host_in[item] / problem.limits.host_bytes_per_s,
    )
