"""Topological orders that contiguous partitions are cut from.

The best order depends on the graph (tried on real exports). Late orders keep small sources next to
their readers, and depth-first orders keep branches together. Orders by weight locality keep users
of the same weights together, which decides where memory is tight. Recurrences through several
layers (attention between the steps of a decoder) need the weights of all of them at once: they want
an order by the weights that a chip has space for. Where the layers of each recurrence fit, an order
that does one recurrence after the other brings every weight in once. Where a chip has space for few
heavy units, light ones had better wait for their readers: they may be run on another chip then.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.dags import following_lists
from mcm_compiler.arrays.kernels import entry_njit, inner_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.problem.contraction import joined_units
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph

WORTH_KEEPING = 0.01
"""Share of a chip's memory that a weight must take for its users to be kept together."""


def worth_keeping(problem: PartitionProblem) -> Longs:
    """Shared weights that are large enough for their users to be kept together."""
    heavy = problem.weight_bytes > WORTH_KEEPING * min(problem.limits.sram_bytes)
    return np.flatnonzero(heavy & (np.diff(problem.weight_ptr) > 1))


def by_weight_components(problem: PartitionProblem, graph: RuleGraph) -> Longs:
    """Positions in `graph.units`, component after component (our derivation).

    With all users of a large shared weight as one node, the strongly connected components are the
    recurrences: layers that cannot be done one after the other. Each is done as a whole, after
    all that it reads, so that no weight of another one is asked for in between. Sources come
    just before what reads them first. Linear in units and edges.

    Args:
        problem: the problem.
        graph: its rule graph.
    """
    size, node_of = graph.num_nodes, graph.node_of(problem.num_units)
    # Backwards from the last position, so that sources stand late.
    source, target = (size - 1 - node_of[ends] for ends in dependency_edges(problem))
    leads = following_lists(size, zip(target.tolist(), source.tolist(), strict=True))
    position = np.where(node_of < 0, -1, size - 1 - node_of)
    together: list[tuple[int, int]] = []
    for w in worth_keeping(problem).tolist():
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        placed = position[users]
        placed = placed[placed >= 0].tolist()
        together += [*pairwise(placed), *pairwise(placed[::-1])]
    component = np.array(joined_units(leads, together)[::-1], np.int64)
    return np.lexsort((np.arange(size), component)).astype(np.int64)


RESIDENT_SHARE = 0.75
"""Share of a chip's memory that an order by resident weights counts on; the rest is for tensors."""


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
    """The first `count` of given, late, depth-first, by weights, resident, components, delayed.

    Delayed is the order by resident weights with light units as late as possible. Duplicates are
    left out, the last four where no weight is shared, and components where no large one is.
    Clonable units have no position: they go where they are read.
    """
    graph = rule_graph(problem)
    units = graph.units
    before, after = graph.before, graph.after
    orders = [Order("given", units)]
    if count > 1:
        reverse = _depth_first(before, np.diff(after.ptr), True)
        orders.append(Order("late", units[reverse[::-1]]))
    if count > 2:
        forward = _depth_first(after, np.diff(before.ptr), False)
        orders.append(Order("depth_first", units[forward]))
    if count > 3 and bool((np.diff(problem.weight_ptr) > 1).any()):
        weight_of = _heaviest_weight(problem, 2)[units]
        by_weight = _weight_locality(
            after, np.diff(before.ptr), weight_of, len(problem.weight_names)
        )
        orders.append(Order("weights", units[by_weight]))
        if count > 4:
            by_room = _resident_weights(
                after,
                np.diff(before.ptr),
                weight_of,
                problem.weight_bytes,
                int(RESIDENT_SHARE * min(problem.limits.sram_bytes)),
            )
            orders.append(Order("resident", units[by_room]))
            if count > 5 and worth_keeping(problem).size:
                by_component = by_weight_components(problem, graph)
                orders.append(Order("components", units[by_component]))
            if count > 6:
                work = problem.compute_s[units]
                heavy = work > work.mean()
                delayed = _delayed(before, np.diff(after.ptr), heavy, by_room)
                orders.append(Order("delayed", units[delayed]))
    distinct: dict[bytes, Order] = {}
    for order in orders:
        distinct.setdefault(order.units.tobytes(), order)
    return list(distinct.values())


def tile_major(problem: PartitionProblem, share: float) -> Order:
    """The order in which each tile goes as far as it can with the weights that are at hand.

    Of the ready units the last in the problem's order comes next, so that few tensors are live.
    Weights are at hand up to a share of a chip's memory. If no ready unit has its weight at hand,
    all are dropped, and that of the unit that has waited longest is taken.
    """
    graph, most_bytes = rule_graph(problem), share * min(problem.limits.sram_bytes)
    weight_of = _heaviest_weight(problem, 1)[graph.units].tolist()
    sizes, missing = problem.weight_bytes.tolist(), np.diff(graph.before.ptr)
    at_hand, held = set[int](), 0.0
    ready, waiting, found = list[int](), list[int](), list[int]()

    def offer(node: int) -> None:
        nonlocal held
        weight = weight_of[node]
        if weight >= 0 and weight not in at_hand:
            if at_hand and held + sizes[weight] > most_bytes:
                waiting.append(node)
                return
            at_hand.add(weight)
            held += sizes[weight]
        heappush(ready, -node)

    for node in np.flatnonzero(missing == 0).tolist():
        offer(node)
    while len(found) < graph.num_nodes:
        if not ready:
            again, held = waiting.copy(), 0.0
            at_hand.clear()
            waiting.clear()
            for node in again:
                offer(node)
        node = -heappop(ready)
        found.append(node)
        behind = graph.after.row(node)
        missing[behind] -= 1
        for other in behind[missing[behind] == 0].tolist():
            offer(other)
    return Order(f"tile_major_{share:g}", graph.units[np.array(found)])


def _heaviest_weight(problem: PartitionProblem, fewest: int) -> Longs:
    """`[N]`, for each unit the largest of its weights with `fewest` users or more, or -1."""
    best = np.full(problem.num_units, -1, dtype=np.int64)
    counts = np.diff(problem.weight_ptr)
    weight = np.repeat(np.arange(counts.size), np.where(counts >= fewest, counts, 0))
    users = problem.weight_users[np.repeat(counts >= fewest, counts)]
    size = problem.weight_bytes[weight]
    # Of a unit's weights the last one is kept: the first of its largest ones.
    order = np.lexsort((-weight, size))[int((size == 0).sum()) :]
    best[users[order]] = weight[order]
    return best


@entry_njit
def _depth_first(near: Rows, missing: Longs, descending: bool) -> Longs:
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
        begin, end = near.ptr[node], near.ptr[node + 1]
        for k in range(end - begin):
            other = near.entries[begin + k if descending else end - 1 - k]
            missing[other] -= 1
            if missing[other] == 0:
                stack[top] = other
                top += 1
    return order


@entry_njit
def _weight_locality(readers: Rows, missing: Longs, weight_of: Longs, num_weights: int) -> Longs:
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
            _append(head, tail, after, int(weight_of[node]) + 1, node)
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
        for k in range(readers.ptr[node], readers.ptr[node + 1]):
            other = readers.entries[k]
            missing[other] -= 1
            if missing[other] == 0:
                _append(head, tail, after, int(weight_of[other]) + 1, other)
                arrivals[arrived] = other
                arrived += 1
    return order


@entry_njit
def _resident_weights(
    readers: Rows, missing: Longs, weight_of: Longs, weight_bytes: Longs, room_bytes: int
) -> Longs:
    """Kahn's algorithm along chips that fill up with weights.

    Ready units without a shared weight, and those whose weight is resident, come at once, in the
    order in which they became ready. Only when there is none, the weight whose user has waited
    longest becomes resident, too; one that does not fit begins the next chip.
    """
    size = missing.size
    order = np.empty(size, dtype=np.int64)
    # The queue of what may come at once is the part of the order that is not done yet.
    queued, done = 0, 0
    resident = np.zeros(weight_bytes.size, dtype=np.bool_)
    chip_weights = np.empty(weight_bytes.size, dtype=np.int64)
    on_chip, held = 0, 0
    # A linked list of waiting units per weight.
    head = np.full(weight_bytes.size, -1, dtype=np.int64)
    tail = np.full(weight_bytes.size, -1, dtype=np.int64)
    after = np.full(size, -1, dtype=np.int64)
    arrivals = np.empty(size, dtype=np.int64)
    arrived, oldest = 0, 0
    called = np.zeros(size, dtype=np.bool_)
    ready = np.flatnonzero(missing == 0)
    for begin in range(size + 1):
        for k in range(ready.size):
            node = ready[k]
            w = weight_of[node]
            if w < 0 or resident[w]:
                called[node] = True
                order[queued] = node
                queued += 1
                continue
            _append(head, tail, after, int(w), node)
            arrivals[arrived] = node
            arrived += 1
        if begin == size:
            break
        if done == queued:
            while called[arrivals[oldest]]:
                oldest += 1
            w = weight_of[arrivals[oldest]]
            if held + weight_bytes[w] > room_bytes:
                for k in range(on_chip):
                    resident[chip_weights[k]] = False
                on_chip, held = 0, 0
            resident[w] = True
            chip_weights[on_chip] = w
            on_chip += 1
            held += weight_bytes[w]
            node = head[w]
            head[w] = -1
            while node >= 0:
                called[node] = True
                order[queued] = node
                queued += 1
                node = after[node]
        ready = _made_ready(readers, missing, order[done])
        done += 1
    return order


@lean_inner_njit
def _append(head: Longs, tail: Longs, after: Longs, queue: int, node: int) -> None:
    """Appends a node to one of several linked queues."""
    after[node] = -1
    if head[queue] < 0:
        head[queue] = node
    else:
        after[tail[queue]] = node
    tail[queue] = node


@inner_njit
def _made_ready(readers: Rows, missing: Longs, node: int) -> Longs:
    """The neighbours of a unit that wait for none but it; `missing` counts it as done."""
    ready = readers.entries[readers.ptr[node] : readers.ptr[node + 1]].copy()
    count = 0
    for k in range(ready.size):
        missing[ready[k]] -= 1
        if missing[ready[k]] == 0:
            ready[count] = ready[k]
            count += 1
    return ready[:count]


@entry_njit
def _delayed(reads: Rows, missing: Longs, heavy: npt.NDArray[np.bool_], order: Longs) -> Longs:
    """The order with all units that are not heavy as late as their readers allow."""
    size = missing.size
    delayed = np.empty(size, dtype=np.int64)
    stack = np.empty(size, dtype=np.int64)
    free = size
    for at in range(size - 1, -1, -1):
        first = order[at]
        if missing[first] < 0:
            continue
        # From the end on, light units come as soon as all their readers are there.
        top = 1
        stack[0] = first
        missing[first] = -1
        while top:
            top -= 1
            node = stack[top]
            free -= 1
            delayed[free] = node
            for k in range(reads.ptr[node], reads.ptr[node + 1]):
                other = reads.entries[k]
                missing[other] -= 1
                if missing[other] == 0 and not heavy[other]:
                    missing[other] = -1
                    stack[top] = other
                    top += 1
    return delayed
