"""A problem along one topological order, where a chip is a window of positions.

Position p holds unit `order[p]`; the window `[j, i)` between cuts j and i is one chip. All that a
window costs follows from these arrays in constant time per step of either end. What is needed
once per window however many of its units want it (a weight, a clone, a graph input that the host
sends to every chip) is an *item*: an occurrence counts if it is the last one in the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_passes.partitioning.rooms import tensor_rooms, weight_rooms


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
        cross_bytes: `[n + 1]`, memory of one slot of all that crosses each cut.
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
        host_s: least period that the host's channels allow, where only the ends have one.
        sram_bytes: `[C]`.
        speed: `[C]`, clocks relative to those that `work_s` speaks of.
        stream_bytes_per_s: rate at which weights beyond `sram_bytes` may be streamed, or 0.
        stream_limit_bytes: most that a chip may lack.
        stiff: `[n + 1]`, positions before each cut that use a weight too large to be streamed. A
            window with one streams nothing.
        stream_buffer_bytes: buffers of streamed weights, however little is streamed.
        slots: buffers of an arriving tensor, and of a leaving one.
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
    cross_bytes: Longs
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
    slots: int
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
    room = tensor_rooms(problem)
    users = _reading_positions(problem, position)

    made, last_reader = _crossing_tensors(problem, position)
    to_host = problem.tensor_to_host & (made >= 0)
    from_host = problem.tensor_producer < 0
    read = last_reader >= 0
    last = np.where(to_host & ends, n, last_reader)
    moves = (made >= 0) & (read | (to_host & ends)) | from_host & ends & read
    out = np.flatnonzero(to_host)
    arrives = np.flatnonzero(from_host & read)

    out_s, out_bytes = np.zeros(n), np.zeros(n, dtype=np.int64)
    host_s, entry_bytes, exit_bytes = 0.0, 0, 0
    if ends:
        seconds = problem.tensor_bytes / limits.host_bytes_per_s
        host_s = max(float(seconds[arrives].sum()), float(seconds[out].sum()))
        entry_bytes = limits.channel_slots * int(room[arrives].sum())
        exit_bytes = limits.channel_slots * int(room[out].sum())
    else:
        np.add.at(out_s, made[out], problem.tensor_bytes[out] / limits.host_bytes_per_s)
        np.add.at(out_bytes, made[out], limits.channel_slots * room[out])

    moving = np.flatnonzero(moves)
    first, final = made[moving], last[moving]
    far = np.arange(n + 1, dtype=np.int64)
    between = np.flatnonzero((made >= 0) & read)
    np.maximum.at(far, made[between] + 1, last_reader[between] + 1)
    held = np.flatnonzero(moves & (made >= 0))
    live = _sum_between(room[held], made[held], np.minimum(last[held], n - 1) + 1, n + 1)[:n]
    by_made = np.argsort(first, kind="stable")
    by_last = np.argsort(final, kind="stable")
    by_last = by_last[final[by_last] < n]
    items = _items(problem, users, room, n)
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
        link_s=_sum_between(problem.tensor_bytes[moving], first + 1, final + 1, n + 2)[: n + 1]
        / limits.link_bytes_per_s,
        cross_bytes=_sum_between(room[moving], first + 1, final + 1, n + 2)[: n + 1],
        far=np.maximum.accumulate(far),
        made_ptr=np.searchsorted(first[by_made], np.arange(-1, n + 1)),
        made_last=final[by_made],
        made_relay_s=problem.relay_s[moving][by_made],
        made_bytes=np.where(first >= 0, room[moving], 0)[by_made],
        read_ptr=np.searchsorted(final[by_last], np.arange(n + 1)),
        read_from=first[by_last],
        read_relay_s=problem.relay_s[moving][by_last],
        read_bytes=np.where(first >= 0, room[moving], 0)[by_last],
        entry_bytes=entry_bytes,
        exit_bytes=exit_bytes,
        host_s=host_s,
        sram_bytes=np.array(limits.sram_bytes, dtype=np.int64),
        speed=problem.chip_speed,
        stream_bytes_per_s=limits.stream_bytes_per_s,
        stream_limit_bytes=stream_share * max(limits.sram_bytes),
        stiff=_stiff_positions(problem, users, n, stream_most),
        stream_buffer_bytes=limits.stream_buffers * _largest_streamed(problem, stream_most),
        slots=limits.channel_slots,
        strict=problem.routing == "strict",
    )


def _largest_streamed(problem: PartitionProblem, most: int | None) -> int:
    sizes = weight_rooms(problem)
    return int(sizes[sizes <= most].max(initial=0)) if most is not None else 0


def _stiff_positions(
    problem: PartitionProblem, users: list[npt.NDArray[np.int64]], n: int, most: int | None
) -> Longs:
    counts = np.zeros(n + 1, dtype=np.int64)
    if most is not None:
        for w in np.flatnonzero(weight_rooms(problem) > most).tolist():
            readers = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
            counts[_union(users, readers) + 1] += 1
    return np.cumsum(counts)


def _reading_positions(problem: PartitionProblem, position: Longs) -> list[npt.NDArray[np.int64]]:
    """For each unit the positions of units that need it: its own, or those behind its copies."""
    behind = position[problem.clone_closure.entries]
    rows = np.split(behind, problem.clone_closure.ptr[1:-1])
    return [np.sort(row) if row.size > 1 else row for row in rows]


def _crossing_tensors(problem: PartitionProblem, position: Longs) -> tuple[Longs, Longs]:
    """Where each tensor is made (-1: host, -2: by a clonable unit) and read last (-1: nowhere)."""
    producer = problem.tensor_producer
    cloned = (producer >= 0) & problem.clonable[producer]
    made = np.where(producer >= 0, position[producer], -1)
    made[cloned] = -2
    last = np.full(producer.size, -1, dtype=np.int64)
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


def _items(
    problem: PartitionProblem, users: list[npt.NDArray[np.int64]], room: Longs, n: int
) -> _Items:
    """The occurrences of items, sorted by position and then by item."""
    at: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    costs: list[tuple[float, int, float]] = [(0.0, 0, 0.0)]
    clone_bytes = np.zeros(problem.num_units, dtype=np.int64)
    for t, producer in enumerate(problem.tensor_producer.tolist()):
        if producer >= 0 and problem.clonable[producer]:
            clone_bytes[producer] += room[t] if problem.memory == "estimate" else 0
        elif producer < 0 and problem.limits.host_io == "any":
            readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            if readers.size:
                arrival = int(problem.tensor_bytes[t]) / problem.limits.host_bytes_per_s
                at.append(_union(users, readers))
                costs.append((0.0, problem.limits.channel_slots * int(room[t]), arrival))
    for u in np.flatnonzero(problem.clonable).tolist():
        at.append(users[u])
        costs.append((float(problem.compute_s[u]), int(clone_bytes[u]), 0.0))
    for w, size in enumerate(weight_rooms(problem).tolist()):
        readers = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        at.append(_union(users, readers))
        costs.append((0.0, size, 0.0))

    where = np.concatenate(at)
    item = np.repeat(np.arange(len(at)), [a.size for a in at])
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
        seconds=np.array([s for s, _, _ in costs])[item],
        memory=np.array([size for _, size, _ in costs], dtype=np.int64)[item],
        in_seconds=np.array([s for _, _, s in costs])[item],
    )


def _union(
    users: list[npt.NDArray[np.int64]], units: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    if units.size == 1:
        return users[units[0]]
    return np.unique(np.concatenate([users[u] for u in units.tolist()]))
