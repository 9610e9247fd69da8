"""Clusters around weights: each op joins the weight that is nearest in the graph.

Users name layers after weights, and so do human experts when they place; the graph shows the same
without names. What an optimiser keeps of a weight, and weights that few ops surround, are joined
with the cluster they exchange most bytes with (our derivation).

Clusters are divided by depth, and by how long their ops may wait (our derivation). In training
steps the ops of one weight are of two sorts. Those on the way to the loss and back are waited for;
the weight's own gradient is needed at the very end alone. Where devices are busy with the latter,
others may take them.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import starts
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import VARIABLE, Box, StepProblem


class Adjacency(NamedTuple):
    """An undirected graph of n nodes; each edge stands at both of its ends.

    Attributes:
        begin: `[n + 1]`, neighbours of node i are `other[begin[i] : begin[i + 1]]`.
        other: ascending for each node, distinct.
        weight: of each edge.
    """

    begin: Longs
    other: Ints
    weight: Floats


def edge_bytes(problem: StepProblem) -> Floats:
    """`[E]`, bytes of the values that go along each of `problem.edges`, each value once."""
    maker = problem.producer[problem.reads].astype(np.int64)
    made = maker >= 0
    keys = maker[made] * problem.num_ops + problem.reader[made]
    where = np.unique(keys, return_inverse=True)[1]
    moved = problem.value_bytes[problem.reads[made]].astype(np.float64)
    return sums_of(where, moved, len(problem.edges))


def sums_of(label: Ints | Longs, weight: Floats, count: int) -> Floats:
    """`[count]`, weights summed by label."""
    return np.bincount(label, weight, count).astype(np.float64)


def quotient(pairs: Ints, weight: Floats, label: Ints | Longs, count: int) -> Adjacency:
    """The graph of labels: edges between different ones, weights of parallel edges summed.

    Args:
        pairs: `[E, 2]`, nodes.
        weight: `[E]`.
        label: `[nodes]`, below `count`.
        count: labels.
    """
    a, b = label[pairs[:, 0]].astype(np.int64), label[pairs[:, 1]].astype(np.int64)
    between = a != b
    a, b, weight = a[between], b[between], weight[between]
    keys, where = np.unique(np.concatenate([a * count + b, b * count + a]), return_inverse=True)
    sums = sums_of(where, np.concatenate([weight, weight]), len(keys))
    begin = starts(np.bincount(keys // max(count, 1), minlength=count))
    return Adjacency(begin, (keys % max(count, 1)).astype(np.int32), sums)


def fastest_times(problem: StepProblem, box: Box) -> Floats:
    """`[N]`, time of each op on the fastest device that may run it."""
    times = problem.device_times(box)
    return times.min(axis=1) if len(times) else np.empty(0)


@entry_njit
def heads_and_tails(edges: Ints, fastest: Floats) -> Floats:
    """`[2, N]`: the longest chains that lead to each op and that follow it, without its own time.

    Args:
        edges: `[E, 2]`, pairs of an op and a later one that needs it, ascending.
        fastest: `[N]`, seconds.
    """
    ends = np.zeros((2, len(fastest)))
    for e in range(len(edges)):
        one, other = edges[e, 0], edges[e, 1]
        ends[0, other] = max(ends[0, other], ends[0, one] + fastest[one])
    for e in range(len(edges) - 1, -1, -1):
        one, other = edges[e, 0], edges[e, 1]
        ends[1, one] = max(ends[1, one], ends[1, other] + fastest[other])
    return ends


BYTES_SHARE = 0.99
"""Of all bytes of weights, what those hold that clusters begin at, the largest first."""

SMALL_BYTES = 1024.0
"""Edges that carry less say nothing about what belongs together."""

MOST_SWEEPS = 20

FEW_CHANGES = 1e-3
"""Of all ops; sweeps end where no more change."""

LEAST_OPS_SHARE = 0.05
"""Clusters with fewer ops than this share of the mean are joined with others."""


def weight_clusters(problem: StepProblem, most: int = 96) -> Ints:
    """`[N]`, cluster of each op, numbers from 0 without gaps, in the order of their first ops.

    Ops that run together are in one cluster. Linear in the size of the graph, but for sorting.

    Args:
        problem: what is placed.
        most: clusters that there may be; those with the fewest ops are joined with others.
    """
    if not problem.num_ops:
        return np.empty(0, np.int32)
    pairs, weight = problem.edges, edge_bytes(problem)
    everything = quotient(pairs, weight, np.arange(problem.num_ops), problem.num_ops)
    core = _cores(everything, *_seeds(problem))
    known = np.flatnonzero(core >= 0)
    nearest = spread_along(everything, known, SMALL_BYTES)
    label = np.full(problem.num_ops, core.max() + 1, np.int32)
    label[nearest >= 0] = core[known[nearest[nearest >= 0]]]
    _settle(everything, label, core >= 0, SMALL_BYTES)
    label = label[problem.leader[problem.together]]
    label = np.unique(label, return_inverse=True)[1].astype(np.int32)
    count = int(label.max()) + 1
    joined = _joined(quotient(pairs, weight, label, count), np.bincount(label), most)
    return in_order(joined[label])


def in_order(label: Ints) -> Ints:
    """The same labels, numbered from 0 in the order in which they occur."""
    _, first, where = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[where]


def is_weight(problem: StepProblem) -> Bools:
    """`[V]`, values of variables, and weights that lie ready."""
    variable = np.array([kind == VARIABLE for kind in problem.op_types], np.bool_)
    return (problem.producer < 0) | variable[np.maximum(problem.producer, 0)]


def _seeds(problem: StepProblem) -> tuple[Longs, Longs]:
    """Ops that clusters begin at, ascending, and the bytes of their largest weights.

    Large variables, and first readers of weights that lie ready.
    """
    holder = problem.holder
    values = np.flatnonzero(is_weight(problem) & (holder >= 0))
    values = values[np.argsort(-problem.value_bytes[values], kind="stable")]
    sums = np.cumsum(problem.value_bytes[values])
    most = int(np.searchsorted(sums, BYTES_SHARE * sums[-1])) + 1 if len(sums) else 0
    seeds, largest = np.unique(holder[values[:most]], return_index=True)
    return seeds, problem.value_bytes[values[largest]]


def spread_along(graph: Adjacency, seeds: Longs, least: float) -> Ints:
    """Nearest seeds along values of some size; where those do not lead, along all others.

    Small values are read everywhere, such as the factor by which gradients are clipped: along them
    everything is near. -1 where nothing leads, as everywhere without seeds.
    """
    if not len(seeds):
        return np.full(len(graph.begin) - 1, -1, np.int32)
    large = graph.weight >= least
    sums = np.concatenate([[0], np.cumsum(large)])
    near = spread(sums[graph.begin].astype(np.int64), graph.other[large], seeds)
    known = np.flatnonzero(near >= 0)
    rest = spread(graph.begin, graph.other, known)
    return np.where(rest >= 0, near[known[rest]], -1).astype(np.int32)


@entry_njit
def _cores(graph: Adjacency, seeds: Longs, size: Longs) -> Ints:
    """`[N]`, the weight that each op is a part of or belongs to for sure, or -1.

    What is joined with a weight by values of its very size: its products, its gradient, its update,
    and what an optimiser keeps of it.

    Args:
        graph: of ops.
        seeds: ops that have weights, ascending.
        size: bytes of the weight of each.
    """
    found = np.full(len(graph.begin) - 1, -1, np.int32)
    queue = np.empty(len(found), np.int64)
    cores = 0
    for k in range(len(seeds)):
        if found[seeds[k]] >= 0:
            continue
        found[seeds[k]] = cores
        queue[0] = seeds[k]
        head, tail = 0, 1
        while head < tail:
            n = queue[head]
            head += 1
            for e in range(graph.begin[n], graph.begin[n + 1]):
                if graph.weight[e] == size[k] and found[graph.other[e]] < 0:
                    found[graph.other[e]] = cores
                    queue[tail] = graph.other[e]
                    tail += 1
        cores += 1
    return found


@entry_njit
def _settle(graph: Adjacency, label: Ints, held: Bools, least: float) -> None:
    """Ops change to the cluster that most of their neighbours are in, until few do.

    Raghavan, Albert and Kumara 2007, *Near linear time algorithm to detect community structures*;
    in the order of numbers and back in turn, where the paper draws an order.

    Args:
        graph: of ops.
        label: `[N]`, changed.
        held: `[N]`, ops that stay.
        least: bytes of edges that count.
    """
    nodes = len(label)
    votes = np.zeros(label.max() + 2, np.int64)
    for sweep in range(MOST_SWEEPS):
        changed = 0
        for turn in range(nodes):
            n = turn if sweep % 2 == 0 else nodes - 1 - turn
            if held[n]:
                continue
            best = label[n]
            for e in range(graph.begin[n], graph.begin[n + 1]):
                if graph.weight[e] >= least:
                    votes[label[graph.other[e]]] += 1
            for e in range(graph.begin[n], graph.begin[n + 1]):
                candidate = label[graph.other[e]]
                if votes[candidate] > votes[best]:
                    best = candidate
            for e in range(graph.begin[n], graph.begin[n + 1]):
                votes[label[graph.other[e]]] = 0
            if best != label[n]:
                label[n] = best
                changed += 1
        if changed <= nodes * FEW_CHANGES:
            return


@entry_njit
def spread(begin: Longs, other: Ints, seeds: Longs) -> Ints:
    """`[n]`, the nearest seed of each node, by a search in breadth from all at once; -1 for none.

    Args:
        begin: of neighbours, see `Adjacency`.
        other: neighbours.
        seeds: nodes; of equally near ones that with the lower place in this array.
    """
    nodes = len(begin) - 1
    found = np.full(nodes, -1, np.int32)
    queue = np.empty(nodes, np.int64)
    tail = 0
    for g in range(len(seeds)):
        found[seeds[g]] = g
        queue[tail] = seeds[g]
        tail += 1
    head = 0
    while head < tail:
        n = queue[head]
        head += 1
        for e in range(begin[n], begin[n + 1]):
            if found[other[e]] < 0:
                found[other[e]] = found[n]
                queue[tail] = other[e]
                tail += 1
    return found


def _joined(graph: Adjacency, ops: Longs, most: int) -> Ints:
    """`[clusters]`, the cluster that each one ends in, after small ones are joined with others."""
    count = len(ops)
    size = ops.astype(np.int64).tolist()
    links: list[dict[int, float]] = []
    for k in range(count):
        row = slice(int(graph.begin[k]), int(graph.begin[k + 1]))
        links.append(dict(zip(graph.other[row].tolist(), graph.weight[row].tolist(), strict=True)))
    into = list(range(count))
    heap = [(size[k], k) for k in range(count)]
    heapq.heapify(heap)
    alive, least = count, LEAST_OPS_SHARE * sum(size) / max(count, 1)
    while heap:
        ops_of, k = heapq.heappop(heap)
        if into[k] != k or ops_of != size[k]:
            continue
        if alive <= most and ops_of >= least:
            break
        if not links[k]:
            continue
        host = max(links[k], key=lambda j: (links[k][j], -j))
        into[k] = host
        size[host] += size[k]
        for j, weight in links[k].items():
            del links[j][k]
            if j != host:
                links[host][j] = links[host].get(j, 0.0) + weight
                links[j][host] = links[host][j]
        links[k] = {}
        heapq.heappush(heap, (size[host], host))
        alive -= 1
    return np.array([_root(into, k) for k in range(count)], np.int32)


def _root(into: list[int], k: int) -> int:
    while into[k] != k:
        k = into[k]
    return k


def divided(label: Ints, together: Ints, depth: Floats, work: Floats, parts: int) -> Ints:
    """`[N]`, clusters divided into parts of about equal work, by depth; numbered in order.

    Parts of one cluster follow each other in number, as they do in depth. Ops that run together
    stay so, where the first of them belongs.

    Args:
        label: `[N]`, cluster of each op.
        together: `[N]`, see `StepProblem`.
        depth: `[N]`, in the graph.
        work: `[N]`, time of each op.
        parts: of each cluster, at most.
    """
    first = np.unique(together, return_index=True)[1]
    group_work = np.bincount(together, work, len(first)) + 1e-12
    cluster, group_depth = label[first], depth[first]
    order = np.lexsort((first, group_depth, cluster))
    sums = np.cumsum(group_work[order])
    total = np.bincount(cluster, group_work)
    before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
    share = (sums - group_work[order] / 2 - before[cluster[order]]) / total[cluster[order]]
    part = np.empty(len(first), np.int64)
    part[order] = np.clip((share * parts).astype(np.int64), 0, parts - 1)
    key = cluster.astype(np.int64) * parts + part
    return np.unique(key, return_inverse=True)[1].astype(np.int32)[together]


CLASS_BOUNDS = (0.02, 0.3)
"""Between classes: slack as a share of the longest path."""


def by_slack(label: Ints, together: Ints, slack: Floats, longest: float) -> Ints:
    """`[N]`, clusters divided by classes of slack; numbers without gaps, by cluster, then class.

    Args:
        label: `[N]`, cluster of each op.
        together: `[N]`, see `StepProblem`; ops that run together stay so, where the first belongs.
        slack: `[N]`.
        longest: path.
    """
    first = np.unique(together, return_index=True)[1]
    classes = np.digitize(slack, np.array(CLASS_BOUNDS) * longest)[first[together]]
    keys = label.astype(np.int64) * (len(CLASS_BOUNDS) + 1) + classes
    return np.unique(keys, return_inverse=True)[1].astype(np.int32)
