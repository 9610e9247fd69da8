"""Work that must be done before and after each unit, from which bounds follow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Floats, Longs, PartitionProblem
from mcm_passes.mapping.problem.resident_sizes import weight_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, closure


class WorkAround(NamedTuple):
    """What must be done before and after each of n nodes.

    Attributes:
        before_s: `[n]`, seconds of all ancestors.
        after_s: `[n]`, seconds of all descendants.
        before_room: `[n]`, memory blocks of the weights that ancestors alone use.
        after_room: `[n]`, likewise of descendants.
        own_s: `[n]`, seconds of the node.
        own_room: `[n]`, blocks of the weights that it alone uses.
        gate_before: `[n]`, the nearest ancestor that all other ancestors come before or after;
            -1 where there is none.
        gate_after: `[n]`, likewise among descendants.
    """

    before_s: Floats
    after_s: Floats
    before_room: Floats
    after_room: Floats
    own_s: Floats
    own_room: Floats
    gate_before: Longs
    gate_after: Longs


def work_around(problem: PartitionProblem, graph: RuleGraph) -> WorkAround:
    """Sums over all ancestors and all descendants; n^2 / 4 bytes and n^2 additions."""
    ancestors, descendants = closure(graph)
    own_s = problem.compute_s[graph.units]
    alone = np.flatnonzero(np.diff(problem.weight_ptr) == 1)
    room = np.zeros(problem.num_units)
    users = problem.weight_users[problem.weight_ptr[alone]]
    np.add.at(room, users, weight_blocks(problem)[alone])
    own_room = np.zeros(graph.num_nodes) if problem.streams else room[graph.units]
    count_before, count_after = _counts(ancestors), _counts(descendants)
    return WorkAround(
        _sums(ancestors, own_s),
        _sums(descendants, own_s),
        _sums(ancestors, own_room),
        _sums(descendants, own_room),
        own_s,
        own_room,
        _gates(ancestors, count_before, -1),
        _gates(descendants, count_after, 1),
    )


@entry_njit
def _sums(bits: Words, values: Floats) -> Floats:
    n = values.size
    total = np.zeros(n)
    for v in range(n):
        for k in range(bits.shape[1]):
            word = bits[v, k]
            if word:
                for u in range(k << 6, min((k + 1) << 6, n)):
                    if word >> np.uint64(u & 63) & np.uint64(1):
                        total[v] += values[u]
    return total


@entry_njit
def _counts(bits: Words) -> Longs:
    n = bits.shape[0]
    count = np.zeros(n, np.int64)
    for v in range(n):
        for k in range(bits.shape[1]):
            word = bits[v, k]
            while word:
                word &= word - np.uint64(1)
                count[v] += 1
    return count


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
