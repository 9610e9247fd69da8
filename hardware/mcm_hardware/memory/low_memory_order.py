"""Orders of a chip's kernels that need little memory, over plain arrays.

Finding the order with the lowest peak is NP-hard (Sethi 1975, *Complete Register Allocation
Problems*). The best of a few orders is therefore taken: the order given, and the greedy list
schedules from both ends. Each takes O((K + E + R) log) steps for K kernels, E arcs and R readers.

The kernels are those of one chip, numbered in the order given, which is a topological one. A
value lives from the kernel that writes it to the last that reads it. Values that are not made here
or that stay for good (weights, channel buffers) change no order and are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Longs
from mcm_hardware.compiled.heap import pop, push
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.compiled.stable_order import numbered, order_by_row, row_ptr


class _Values(NamedTuple):
    """Values of kernels; fields as in `low_memory_order`, and the same by kernel.

    Attributes:
        size: `[V]`.
        writer: `[V]`.
        reader_ptr: `[V + 1]`.
        readers: `[R]`.
        kept: `[V]`.
        inputs_ptr: `[K + 1]`, CSR of `inputs`.
        inputs: `[R]`, values that each kernel reads, ascending.
    """

    size: Longs
    writer: Longs
    reader_ptr: Longs
    readers: Longs
    kept: Bools
    inputs_ptr: Longs
    inputs: Longs


class _Ready(NamedTuple):
    """Kernels that may be scheduled next, in a heap, and what decides between them.

    The heap has the least `(key, item)` on top. A kernel is pushed again when its key falls; the
    first of its entries counts.

    Attributes:
        grows: `[K]`, bytes more that are held once a kernel is scheduled; the key.
        waits: `[K]`, kernels that have to be scheduled before.
        key: of the heap; its size is kept separately, as `count`.
        item: kernels; negated in a schedule from the end.
    """

    grows: Longs
    waits: Longs
    key: Longs
    item: Longs


@entry_njit
def low_memory_order(
    succ_ptr: Longs,
    succ: Longs,
    size: Longs,
    writer: Longs,
    reader_ptr: Longs,
    readers: Longs,
    kept: Bools,
) -> Longs:
    """The best of three orders by the peak of live bytes; ties go to the order given.

    Nothing is searched where the order given already needs no more than its hungriest kernel,
    which every order needs: in a chain, for instance.

    Args:
        succ_ptr: `[K + 1]`, successors of kernel k are `succ[succ_ptr[k]:succ_ptr[k + 1]]`.
        succ: `[E]`, distinct for each kernel, and greater than it.
        size: `[V]`, bytes, alignment included.
        writer: `[V]`, kernel that makes each value.
        reader_ptr: `[V + 1]`, readers of value v are `readers[reader_ptr[v]:reader_ptr[v + 1]]`.
        readers: `[R]`, distinct for each value, ascending, without its writer; a value without
            readers is held while its writer runs.
        kept: `[V]`, whether a value lives to the end.

    Returns:
        `[K]`, kernels in the order chosen.
    """
    num_kernels = len(succ_ptr) - 1
    order = numbered(num_kernels)
    inputs_ptr, inputs = _transposed(reader_ptr, readers, num_kernels)
    floor = _hungriest(size, writer, inputs_ptr, inputs, kept)
    lowest = peak_of_order(order, size, writer, reader_ptr, readers, kept)
    if lowest <= floor:
        return order
    values = _Values(size, writer, reader_ptr, readers, kept, inputs_ptr, inputs)
    made = _greedy_from_start(succ_ptr, succ, values)
    peak = peak_of_order(made, size, writer, reader_ptr, readers, kept)
    if peak < lowest:
        order, lowest = made, peak
    if lowest > floor:
        made = _greedy_from_end(succ_ptr, succ, values)
        peak = peak_of_order(made, size, writer, reader_ptr, readers, kept)
        if peak < lowest:
            order = made
    return order


@entry_njit
def live_ranges(
    order: Longs, writer: Longs, reader_ptr: Longs, readers: Longs, kept: Bools
) -> tuple[Longs, Longs]:
    """First and last position in `order` at which each value is held; arguments as above.

    Returns:
        `[V]` and `[V]`, both inclusive.
    """
    position: Longs = np.empty(len(order), np.int64)
    for place in range(len(order)):
        position[order[place]] = place
    first: Longs = np.empty(len(writer), np.int64)
    last: Longs = np.empty(len(writer), np.int64)
    for value in range(len(writer)):
        first[value] = position[writer[value]]
        end = first[value]
        for at in range(reader_ptr[value], reader_ptr[value + 1]):
            end = max(end, position[readers[at]])
        last[value] = len(order) - 1 if kept[value] else end
    return first, last


@entry_njit
def max_live_bytes(size: Longs, first: Longs, last: Longs) -> int:
    """Most bytes held at once: no plan of addresses ends lower.

    Args:
        size: `[n]`, bytes.
        first: `[n]`, step from whose start each is held, from 0.
        last: `[n]`, step to whose end.
    """
    steps = 0
    for item in range(len(size)):
        steps = max(steps, last[item] + 1)
    change: Longs = np.zeros(steps + 1, np.int64)
    for item in range(len(size)):
        change[first[item]] += size[item]
        change[last[item] + 1] -= size[item]
    live, most = 0, 0
    for step in range(steps):
        live += int(change[step])
        most = max(most, live)
    return most


@entry_njit
def peak_of_order(
    order: Longs, size: Longs, writer: Longs, reader_ptr: Longs, readers: Longs, kept: Bools
) -> int:
    """Most bytes of values held at once in `order`; arguments as above."""
    first, last = live_ranges(order, writer, reader_ptr, readers, kept)
    return max_live_bytes(size, first, last)


@inner_njit
def _transposed(ptr: Longs, entries: Longs, count: int) -> tuple[Longs, Longs]:
    """CSR of `count` rows: the rows of each entry, ascending."""
    owner: Longs = np.empty(len(entries), np.int64)
    for row in range(len(ptr) - 1):
        owner[ptr[row] : ptr[row + 1]] = row
    back_ptr = row_ptr(entries, count)
    return back_ptr, owner[order_by_row(entries, back_ptr)]


@inner_njit
def _hungriest(size: Longs, writer: Longs, inputs_ptr: Longs, inputs: Longs, kept: Bools) -> int:
    """A bound on the peak of every order: operands and results of one kernel, or all kept."""
    need: Longs = np.zeros(len(inputs_ptr) - 1, np.int64)
    kept_bytes = 0
    for value in range(len(size)):
        need[writer[value]] += size[value]
        if kept[value]:
            kept_bytes += int(size[value])
    most = kept_bytes
    for kernel in range(len(need)):
        for at in range(inputs_ptr[kernel], inputs_ptr[kernel + 1]):
            need[kernel] += size[inputs[at]]
        most = max(most, int(need[kernel]))
    return most


@inner_njit
def _greedy_from_start(succ_ptr: Longs, succ: Longs, values: _Values) -> Longs:
    """Runs the ready kernel after which the fewest bytes more are held, the first on a tie."""
    num_kernels, num_values = len(succ_ptr) - 1, len(values.size)
    left, left_sum = _readers_left(values)
    ready = _Ready(
        _growth_from_start(num_kernels, values, left, left_sum),
        np.zeros(num_kernels, np.int64),
        np.empty(num_kernels + num_values, np.int64),
        np.empty(num_kernels + num_values, np.int64),
    )
    for kernel in succ:
        ready.waits[kernel] += 1
    count = _push_unawaited(ready, 1)
    done = np.zeros(num_kernels, np.bool_)
    order: Longs = np.empty(num_kernels, np.int64)
    placed = 0
    while count > 0:
        kernel = int(ready.item[0])
        count = pop(ready.key, ready.item, count)
        if done[kernel]:
            # Pushed again when it came to free more, and run then.
            continue
        done[kernel] = True
        order[placed] = kernel
        placed += 1
        for at in range(succ_ptr[kernel], succ_ptr[kernel + 1]):
            count = _end_wait(ready, int(succ[at]), 1, count)
        for at in range(values.inputs_ptr[kernel], values.inputs_ptr[kernel + 1]):
            value = values.inputs[at]
            left[value] -= 1
            left_sum[value] -= kernel
            if left[value] == 1 and not values.kept[value]:
                last = int(left_sum[value])
                ready.grows[last] -= values.size[value]
                if ready.waits[last] == 0:
                    count = push(ready.key, ready.item, count, int(ready.grows[last]), last)
    return order


@expanded_njit
def _readers_left(values: _Values) -> tuple[Longs, Longs]:
    """`[V]` each: readers of each value and their sum, which is the reader where one is left."""
    left: Longs = np.zeros(len(values.size), np.int64)
    left_sum: Longs = np.zeros(len(values.size), np.int64)
    for value in range(len(values.size)):
        for at in range(values.reader_ptr[value], values.reader_ptr[value + 1]):
            left[value] += 1
            left_sum[value] += values.readers[at]
    return left, left_sum


@expanded_njit
def _growth_from_start(num_kernels: int, values: _Values, left: Longs, left_sum: Longs) -> Longs:
    """`[K]`, bytes made less bytes freed by each kernel while nothing has run."""
    grows: Longs = np.zeros(num_kernels, np.int64)
    for value in range(len(values.size)):
        if values.kept[value] or left[value] > 0:
            grows[values.writer[value]] += values.size[value]
        if left[value] == 1 and not values.kept[value]:
            grows[left_sum[value]] -= values.size[value]
    return grows


@inner_njit
def _greedy_from_end(succ_ptr: Longs, succ: Longs, values: _Values) -> Longs:
    """The same backwards in time: a value is born with its last reader and dies with its writer.

    Of the kernels that nothing waits for any more, the one goes last before which the fewest
    bytes more are held; the later one on a tie.
    """
    num_kernels = len(succ_ptr) - 1
    pred_ptr, pred = _transposed(succ_ptr, succ, num_kernels)
    ready = _Ready(
        _growth_from_end(num_kernels, values),
        succ_ptr[1:] - succ_ptr[:-1],
        np.empty(num_kernels + len(values.readers), np.int64),
        np.empty(num_kernels + len(values.readers), np.int64),
    )
    count = _push_unawaited(ready, -1)
    live = values.kept.copy()
    done = np.zeros(num_kernels, np.bool_)
    order: Longs = np.empty(num_kernels, np.int64)
    place = num_kernels
    while count > 0:
        kernel = -int(ready.item[0])
        count = pop(ready.key, ready.item, count)
        if done[kernel]:
            continue
        done[kernel] = True
        place -= 1
        order[place] = kernel
        for at in range(pred_ptr[kernel], pred_ptr[kernel + 1]):
            count = _end_wait(ready, int(pred[at]), -1, count)
        for at in range(values.inputs_ptr[kernel], values.inputs_ptr[kernel + 1]):
            value = int(values.inputs[at])
            if not live[value]:
                live[value] = True
                count = _held_anyway(ready, done, values, value, count)
    return order


@expanded_njit
def _growth_from_end(num_kernels: int, values: _Values) -> Longs:
    """`[K]`, bytes read less bytes made by each kernel, what is held at the end aside."""
    grows: Longs = np.zeros(num_kernels, np.int64)
    for value in range(len(values.size)):
        begin, end = values.reader_ptr[value], values.reader_ptr[value + 1]
        if values.kept[value] or end > begin:
            grows[values.writer[value]] -= values.size[value]
        if not values.kept[value]:
            for at in range(begin, end):
                grows[values.readers[at]] += values.size[value]
    return grows


@expanded_njit
def _held_anyway(ready: _Ready, done: Bools, values: _Values, value: int, count: int) -> int:
    """No reader of `value` takes memory for it any more; returns the new count."""
    for at in range(values.reader_ptr[value], values.reader_ptr[value + 1]):
        reader = int(values.readers[at])
        ready.grows[reader] -= values.size[value]
        if ready.waits[reader] == 0 and not done[reader]:
            count = push(ready.key, ready.item, count, int(ready.grows[reader]), -reader)
    return count


@expanded_njit
def _push_unawaited(ready: _Ready, sign: int) -> int:
    """Fills an empty heap with the kernels that wait for none, times `sign`; returns the count."""
    count = variable(0)
    for kernel in range(len(ready.waits)):
        if ready.waits[kernel] == 0:
            count = push(ready.key, ready.item, count, int(ready.grows[kernel]), sign * kernel)
    return count


@expanded_njit
def _end_wait(ready: _Ready, kernel: int, sign: int, count: int) -> int:
    """Ends one wait of `kernel`, pushed times `sign` if it was the last; returns the new count."""
    ready.waits[kernel] -= 1
    if ready.waits[kernel] == 0:
        return push(ready.key, ready.item, count, int(ready.grows[kernel]), sign * kernel)
    return count
