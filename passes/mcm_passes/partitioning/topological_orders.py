"""Topological orders that contiguous partitions are cut from.

Which order is best depends on the graph (tried out on real exports): late orders keep small
sources next to their readers, depth-first orders keep branches together, and orders by weight
locality keep users of the same weights together, which decides where memory is tight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Ints, Longs, PartitionProblem
from mcm_compiler.ring_rules import dependency_edges


@dataclass(frozen=True, eq=False)
class Order:
    """A topological order of the units that are not clonable.

    Attributes:
        name: how it was made.
        units: `[n]`, unit at each position.
    """

    name: str
    units: Ints


def topological_orders(problem: PartitionProblem, count: int) -> list[Order]:
    """The first `count` of: given, late, depth-first, weight locality; duplicates left out.

    Clonable units have no position: they go where they are read.
    """
    units = np.flatnonzero(~problem.clonable).astype(np.int32)
    index = np.full(problem.num_units, -1, dtype=np.int64)
    index[units] = np.arange(units.size)
    source, target = dependency_edges(problem)
    source, target = index[source], index[target]
    follow_ptr, follow = _adjacency(source, target, units.size)
    lead_ptr, lead = _adjacency(target, source, units.size)
    orders = [Order("given", units)]
    if count > 1:
        reverse = _depth_first(lead_ptr, lead, _degrees(source, units.size), True)
        orders.append(Order("late", units[reverse[::-1]]))
    if count > 2:
        forward = _depth_first(follow_ptr, follow, _degrees(target, units.size), False)
        orders.append(Order("depth_first", units[forward]))
    if count > 3 and bool((np.diff(problem.weight_ptr) > 1).any()):
        weight_of = _heaviest_shared_weight(problem)[units]
        by_weight = _weight_locality(
            follow_ptr, follow, _degrees(target, units.size), weight_of, len(problem.weight_names)
        )
        orders.append(Order("weights", units[by_weight]))
    distinct: dict[bytes, Order] = {}
    for order in orders:
        distinct.setdefault(order.units.tobytes(), order)
    return list(distinct.values())


def _degrees(ends: npt.NDArray[np.int64], size: int) -> Longs:
    return np.bincount(ends, minlength=size).astype(np.int64)


def _adjacency(
    source: npt.NDArray[np.int64], target: npt.NDArray[np.int64], size: int
) -> tuple[Longs, Longs]:
    by_source = np.lexsort((target, source))
    ptr = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(_degrees(source, size), out=ptr[1:])
    return ptr, target[by_source].astype(np.int64)


def _heaviest_shared_weight(problem: PartitionProblem) -> Longs:
    """`[N]`, for each unit the largest of its weights that others use too, or -1."""
    best = np.full(problem.num_units, -1, dtype=np.int64)
    size = np.zeros(problem.num_units, dtype=np.int64)
    for w in np.flatnonzero(np.diff(problem.weight_ptr) > 1).tolist():
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        heavier = users[size[users] < problem.weight_bytes[w]]
        best[heavier] = w
        size[heavier] = problem.weight_bytes[w]
    return best


@njit(cache=True)
def _depth_first(ptr: Longs, neighbours: Longs, missing: Longs, descending: bool) -> Longs:
    """Kahn's algorithm with a stack: what became ready last comes next.

    Of those that become ready together, the last-numbered comes first where `descending`, else
    the first-numbered.
    """
    size = missing.size
    order = np.empty(size, dtype=np.int64)
    stack = np.empty(size, dtype=np.int64)
    top = 0
    for i in range(size):
        node = i if descending else size - 1 - i
        if missing[node] == 0:
            stack[top] = node
            top += 1
    done = 0
    while top:
        top -= 1
        node = stack[top]
        order[done] = node
        done += 1
        begin, end = ptr[node], ptr[node + 1]
        for k in range(end - begin):
            other = neighbours[begin + k] if descending else neighbours[end - 1 - k]
            missing[other] -= 1
            if missing[other] == 0:
                stack[top] = other
                top += 1
    return order


@njit(cache=True)
def _weight_locality(
    ptr: Longs, neighbours: Longs, missing: Longs, weight_of: Longs, num_weights: int
) -> Longs:
    """Kahn's algorithm that goes on with users of the current weight while any is ready.

    Ready units without a shared weight come at once; then users of the current weight; only
    then the weight whose user became ready first.
    """
    size = missing.size
    order = np.empty(size, dtype=np.int64)
    # A linked queue per weight; slot 0 is for units without a shared weight.
    head = np.full(num_weights + 1, -1, dtype=np.int64)
    tail = np.full(num_weights + 1, -1, dtype=np.int64)
    after = np.full(size, -1, dtype=np.int64)
    arrivals = np.empty(size, dtype=np.int64)
    arrived = 0
    oldest = 0
    placed = np.zeros(size, dtype=np.bool_)
    current = 0
    done = 0
    for node in range(size):
        if missing[node] == 0:
            slot = weight_of[node] + 1
            if head[slot] < 0:
                head[slot] = node
            else:
                after[tail[slot]] = node
            tail[slot] = node
            arrivals[arrived] = node
            arrived += 1
    while done < size:
        slot = 0
        if head[0] < 0:
            if head[current] < 0:
                while placed[arrivals[oldest]]:
                    oldest += 1
                current = weight_of[arrivals[oldest]] + 1
            slot = current
        node = head[slot]
        head[slot] = after[node]
        placed[node] = True
        order[done] = node
        done += 1
        for k in range(ptr[node], ptr[node + 1]):
            other = neighbours[k]
            missing[other] -= 1
            if missing[other] == 0:
                slot = weight_of[other] + 1
                after[other] = -1
                if head[slot] < 0:
                    head[slot] = other
                else:
                    after[tail[slot]] = other
                tail[slot] = other
                arrivals[arrived] = other
                arrived += 1
    return order
