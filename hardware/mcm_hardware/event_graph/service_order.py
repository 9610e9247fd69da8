"""The static order in which resources serve the activities of an event graph.

By inference, and within one in the order in which activities become ready in a lone inference
whose links are free. All waits then point backwards in (inference, order), so that a program
deadlocks only if its own waits form a cycle within one inference. A program with start times is
served by those instead: see `steady_schedule.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import expanded_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Floats, Longs
from mcm_hardware.compiled.heap import pop, push
from mcm_hardware.compiled.plain_numbers import variable


class Waits(NamedTuple):
    """Arcs of an event graph, without those for the resources.

    Attributes:
        source: `[W]`, activity waited for.
        seconds: `[W]`, from its start until the wait is over.
        lag: `[W]`, how many inferences before.
        for_buffer: `[W]`, whether it is space that is waited for, rather than data.
    """

    source: Longs
    seconds: Floats
    lag: Longs
    for_buffer: Bools


@inner_njit
def empty_waits(count: int) -> Waits:
    """Arrays for `count` waits, none of them for a buffer."""
    return Waits(
        np.empty(count, np.int64),
        np.empty(count, np.float64),
        np.empty(count, np.int64),
        np.zeros(count, np.bool_),
    )


@expanded_njit
def ready_order(
    num_kernels: int, resource: Longs, busy_s: Floats, wait_ptr: Longs, waits: Waits, ready: Floats
) -> Longs:
    """Activities by the time at which they become ready in a lone inference with free links.

    Plays the inference as a discrete event simulation: of all activities whose waits are over or
    on their way, the earliest is next; of several, the one with the lowest index. Kernels of a
    chip keep their order.

    Args:
        num_kernels: activities from here on are hops.
        resource: as in `EventGraph`, like the rest.
        busy_s: `[A]`.
        wait_ptr: `[A + 1]`.
        waits: `[W]`.
        ready: `[A]`, when each is ready at the earliest; set to when it is.

    Returns:
        Activities. Some are missing if waits without lag form a cycle: those on it, and those
        that wait for them.
    """
    open_waits = _open_waits(num_kernels, resource, wait_ptr, waits)
    ptr, waiter, gap = _waiters(wait_ptr, waits)
    activities = len(busy_s)
    heap, key = np.empty(activities, np.int64), np.empty(activities, np.float64)
    size = variable(0)
    for a in range(activities):
        if open_waits[a] == 0:
            size = push(key, heap, size, float(ready[a]), a)
    order = np.empty(activities, np.int64)
    count = 0
    while size > 0:
        a = heap[0]
        size = pop(key, heap, size)
        order[count] = a
        count += 1
        for i in range(ptr[a], ptr[a + 1]):
            b = waiter[i]
            ready[b] = max(ready[b], ready[a] + gap[i])
            open_waits[b] -= 1
            if open_waits[b] == 0:
                size = push(key, heap, size, float(ready[b]), int(b))
        b = a + 1
        if b < num_kernels and resource[b] == resource[a]:
            ready[b] = max(ready[b], ready[a] + busy_s[a])
            open_waits[b] -= 1
            if open_waits[b] == 0:
                size = push(key, heap, size, float(ready[b]), int(b))
    return order[:count]


@inner_njit
def _open_waits(num_kernels: int, resource: Longs, wait_ptr: Longs, waits: Waits) -> Longs:
    """`[A]`, waits without lag of each activity, with that of a kernel for its chip."""
    count = np.zeros(len(wait_ptr) - 1, np.int64)
    for a in range(len(count)):
        for w in range(wait_ptr[a], wait_ptr[a + 1]):
            if waits.lag[w] == 0:
                count[a] += 1
    for a in range(1, num_kernels):
        if resource[a] == resource[a - 1]:
            count[a] += 1
    return count


@inner_njit
def _waiters(wait_ptr: Longs, waits: Waits) -> tuple[Longs, Longs, Floats]:
    """The waits without lag by the activity waited for, in the order of the activities that wait.

    Returns:
        `[A + 1]` CSR of the others: which activities wait, and how long after its start.
    """
    activities = len(wait_ptr) - 1
    ptr = np.zeros(activities + 2, np.int64)
    for w in range(wait_ptr[activities]):
        if waits.lag[w] == 0:
            ptr[waits.source[w] + 2] += 1
    for a in range(activities):
        ptr[a + 2] += ptr[a + 1]
    # While it is filled, `ptr[a + 1]` is where the next waiter for `a` goes; then it is its end.
    waiter = np.empty(ptr[activities + 1], np.int64)
    gap = np.empty(ptr[activities + 1], np.float64)
    for a in range(activities):
        for w in range(wait_ptr[a], wait_ptr[a + 1]):
            if waits.lag[w] == 0:
                place = ptr[waits.source[w] + 1]
                waiter[place], gap[place] = a, waits.seconds[w]
                ptr[waits.source[w] + 1] += 1
    return ptr, waiter, gap


@expanded_njit
def serve_in_order(
    order: Longs, resource: Longs, num_resources: int, unordered: Bools
) -> tuple[Longs, Longs]:
    """Activity that each resource serves before each activity, if all follow one order.

    Args:
        order: activities.
        resource: `[A]`, what each of them takes.
        num_resources: resources are `0 .. num_resources - 1`.
        unordered: of the first resources, whether they follow none.

    Returns:
        `before` and `before_lag` as in `EventGraph`; an activity that is not in `order`, or whose
        resource follows none across inferences, has itself before it.
    """
    before = np.arange(len(resource))
    lag = np.ones(len(resource), np.int64)
    first = np.full(num_resources, -1, np.int64)
    last = np.full(num_resources, -1, np.int64)
    for a in order:
        r = resource[a]
        if r < len(unordered) and unordered[r]:
            continue
        if first[r] < 0:
            first[r] = a
        else:
            before[a], lag[a] = last[r], 0
        last[r] = a
    for r in range(num_resources):
        if first[r] >= 0:
            before[first[r]] = last[r]
    return before, lag
