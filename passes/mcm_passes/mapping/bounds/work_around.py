"""Work that must be done before and after each unit, from which bounds follow."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Floats, Longs, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import weight_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, closure, rule_graph


class WorkAround(NamedTuple):
    """Work before and after each of n nodes.

    Attributes:
        graph: the rule graph that the nodes are of.
        ancestors: `[n, words]`, bitset of the ancestors of each node.
        descendants: `[n, words]`, likewise.
        before_s: `[n]`, seconds of all ancestors.
        before_room: `[n]`, memory blocks of the weights that ancestors alone use.
        after_s: `[n]`, seconds of all descendants.
        after_room: `[n]`, as `before_room`, of descendants.
        own_s: `[n]`, seconds of the node.
        own_room: `[n]`, blocks of the weights that it alone uses.
        gate_before: `[n]`, the nearest ancestor that all other ancestors come before or after;
            -1 where there is none.
        gate_after: `[n]`, likewise among descendants.
    """

    graph: RuleGraph
    ancestors: Words
    descendants: Words
    before_s: Floats
    before_room: Floats
    after_s: Floats
    after_room: Floats
    own_s: Floats
    own_room: Floats
    gate_before: Longs
    gate_after: Longs


_kept: weakref.WeakKeyDictionary[PartitionProblem, WorkAround] = weakref.WeakKeyDictionary()


def work_around(problem: PartitionProblem) -> WorkAround:
    """Sums over all ancestors and all descendants; n^2 / 4 bytes and n^2 / 8 additions.

    They are kept as long as the problem lives.
    """
    known = _kept.get(problem)
    if known is None:
        known = _kept[problem] = _work_around(problem)
    return known


def _work_around(problem: PartitionProblem) -> WorkAround:
    graph = rule_graph(problem)
    own_s = np.array(problem.compute_s[graph.units], np.float64)
    alone = np.flatnonzero(np.diff(problem.weight_ptr) == 1)
    room = np.zeros(problem.num_units)
    users = problem.weight_users[problem.weight_ptr[alone]]
    np.add.at(room, users, weight_blocks(problem)[alone])
    own_room = np.zeros(graph.num_nodes) if problem.streams else room[graph.units]
    ancestors, descendants = closure(graph)
    values = np.stack([own_s, own_room, np.ones(graph.num_nodes)], axis=1)
    before, after = (sums_over(bits, values).T.copy() for bits in (ancestors, descendants))
    gates = (
        _gates(ancestors, before[2].astype(np.int64), -1),
        _gates(descendants, after[2].astype(np.int64), 1),
    )
    sums = before[0], before[1], after[0], after[1]
    return WorkAround(graph, ancestors, descendants, *sums, own_s, own_room, *gates)


@entry_njit
def sums_over(bits: Words, values: Floats) -> Floats:
    """`[n, k]`, sums of the rows of `values[n, k]` over each set of nodes.

    Each byte of a set is looked up in the sums of all 256 sets of eight nodes.
    """
    n, columns = values.shape
    total = np.zeros((n, columns))
    sums = np.zeros((256, columns))
    for first in range(0, n, 8):
        for i in range(min(8, n - first)):
            for part in range(1 << i):
                for k in range(columns):
                    sums[part + (1 << i), k] = sums[part, k] + values[first + i, k]
        word, shift = first >> 6, np.uint64(first & 63)
        for v in range(n):
            part = int((bits[v, word] >> shift) & np.uint64(255))
            if part:
                for k in range(columns):
                    total[v, k] += sums[part, k]
    return total


@entry_njit
def _gates(bits: Words, count: Longs, step: int) -> Longs:
    """`[n]`, the gates among ancestors (step -1) or among descendants (step 1)."""
    n = bits.shape[0]
    gate = np.full(n, -1, np.int64)
    nearer = np.empty(n, np.int64)
    for v in range(n):
        left, passed = count[v], 0
        u = v + step
        while left:
            if bits[v, u >> 6] >> np.uint64(u & 63) & np.uint64(1):
                left -= 1
                # All that are left come before u exactly if u has so many ancestors.
                if count[u] == left:
                    after_all = True
                    for i in range(passed):
                        after_all &= bool(
                            bits[nearer[i], u >> 6] >> np.uint64(u & 63) & np.uint64(1)
                        )
                    if after_all:
                        gate[v] = u
                        break
                nearer[passed] = u
                passed += 1
            u += step
    return gate
