"""Order ideals: the sets of units that can have run when a chip hands over to the next one.

An ideal holds with each node all its ancestors. The chips up to any link hold an ideal, so a
partition is a chain of ideals. Graphs that are nearly a chain have few: Tarnawski et al. 2020,
section 5.1, solve such placement problems by dynamic programming over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words

MOST_BYTES = 1 << 26
"""Bytes that the bitsets of all ideals may take."""

FIRST_IDEALS = 1024
"""Ideals that arrays have rows for at first, a power of two."""


@dataclass(frozen=True, eq=False)
class OrderIdeals:
    """All ideals of a graph, by size; the first is empty, the last holds all nodes.

    Attributes:
        members: `[I, ceil(n / 64)]`, bitset of each ideal.
        cover_ptr: `[I + 1]`, CSR of the ideals that hold one node more.
        covers: those ideals.
        cover_node: the node that each has more.
    """

    members: Words
    cover_ptr: Longs
    covers: Ints
    cover_node: Ints

    @property
    def count(self) -> int:
        """Number of ideals, I."""
        return int(self.members.shape[0])

    @property
    def smaller(self) -> Longs:
        """`[I]`, of each ideal but the empty one an ideal with one node less; of that one itself.

        It stands before it.
        """
        smaller = np.zeros(self.count, np.int64)
        smaller[self.covers] = np.repeat(np.arange(self.count), np.diff(self.cover_ptr))
        return smaller


_Edges = tuple[Rows, Rows]
"""Successors and predecessors of the nodes of a rule graph."""


class _Found(NamedTuple):
    """Ideals in the order in which they are found, in arrays of R rows.

    Attributes:
        members: `[R, ceil(n / 64)]`, bitset of each.
        hashes: `[R]`, of the bitsets.
        cover_ptr: `[R + 1]`, CSR of the nodes that an ideal can have more, known when it is found.
        cover_node: `[R r]`, those nodes, at most r each.
        covers: `[R r]`, the ideals with them, known when the ideal was looked at.
        slots: `[4 R]`, ideals by hash, -1 where none is; a power of two.
    """

    members: Words
    hashes: Words
    cover_ptr: Longs
    cover_node: Ints
    covers: Ints
    slots: Ints


def order_ideals(graph: RuleGraph, most: int) -> OrderIdeals | None:
    """All ideals of `graph`, or None where there are more than `most` or `MOST_BYTES` of them.

    O(n / 64) for each pair of an ideal and one with a node more.
    """
    n = graph.num_nodes
    most = min(most, 8 * MOST_BYTES // max(n, 1))
    if n >= most:
        # A chain has n + 1, and no graph has fewer.
        return None
    # Each of r nodes that are ready may have run or not, which makes 2^r ideals.
    most_ready = most.bit_length() - 1
    first = np.flatnonzero(np.diff(graph.before.ptr) == 0).astype(np.int32)
    if first.size > most_ready:
        return None
    found, count = _find((graph.after, graph.before), first, most, most_ready)
    if count < 0:
        return None
    size = int(found.cover_ptr[count])
    return OrderIdeals(
        members=found.members[:count].copy(),
        cover_ptr=found.cover_ptr[: count + 1].copy(),
        covers=found.covers[:size].copy(),
        cover_node=found.cover_node[:size].copy(),
    )


@entry_njit
def _find(edges: _Edges, first: Ints, most: int, most_ready: int) -> tuple[_Found, int]:
    """All ideals, of which the nodes `first` depend on nothing; how many, or -1 for too many."""
    found = _rows(FIRST_IDEALS, (edges[0].ptr.size + 62) // 64, most_ready)
    found.cover_ptr[1] = first.size
    found.cover_node[: first.size] = first
    found.slots[0] = 0
    count, at = 1, 0
    while at < count:
        if count + most_ready > found.hashes.size:
            found = _with_more_rows(found, count, most_ready)
        count, at = _look_on(edges, found, count, at, most, most_ready)
    return found, count


@inner_njit
def _rows(ideals: int, words: int, most_ready: int) -> _Found:
    """Arrays without an ideal."""
    return _Found(
        np.zeros((ideals, words), np.uint64),
        np.zeros(ideals, np.uint64),
        np.zeros(ideals + 1, np.int64),
        np.zeros(ideals * most_ready, np.int32),
        np.zeros(ideals * most_ready, np.int32),
        np.full(4 * ideals, -1, np.int32),
    )


@inner_njit
def _with_more_rows(found: _Found, count: int, most_ready: int) -> _Found:
    """The same ideals in arrays of twice as many rows."""
    more = _rows(2 * found.hashes.size, found.members.shape[1], most_ready)
    size = found.cover_node.size
    more.members[:count] = found.members[:count]
    more.hashes[:count] = found.hashes[:count]
    more.cover_ptr[: count + 1] = found.cover_ptr[: count + 1]
    more.cover_node[:size] = found.cover_node
    more.covers[:size] = found.covers
    last = np.uint64(more.slots.size - 1)
    for i in range(count):
        slot = more.hashes[i] & last
        while more.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        more.slots[slot] = i
    return more


@lean_inner_njit
def _look_on(
    edges: _Edges, found: _Found, count: int, at: int, most: int, most_ready: int
) -> tuple[int, int]:
    """Looks at ideals for those with one node more, as long as arrays have rows for all of these.

    Returns:
        How many ideals there are, or -1 where they are too many, and the next one to look at.
    """
    last = np.uint64(found.slots.size - 1)
    while at < count and count + most_ready <= found.hashes.size:
        for k in range(found.cover_ptr[at], found.cover_ptr[at + 1]):
            v = found.cover_node[k]
            hashed = np.uint64(found.hashes[at] ^ _mixed(v))
            slot = hashed & last
            while found.slots[slot] >= 0 and not _is_grown(found, found.slots[slot], hashed, at, v):
                slot = (slot + np.uint64(1)) & last
            if found.slots[slot] < 0:
                found.slots[slot] = count
                found.hashes[count] = hashed
                if count == most or not _grow(edges, found, count, at, v, most_ready):
                    return -1, at
                count += 1
            found.covers[k] = found.slots[slot]
        at += 1
    return count, at


@inlined_njit
def _mixed(node: int) -> np.uint64:
    """A node's number spread over 64 bits: the last steps of SplitMix64."""
    mixed = np.uint64(node + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inlined_njit
def _is_grown(found: _Found, ideal: int, hashed: np.uint64, smaller: int, node: int) -> bool:
    """Return whether an ideal is a smaller one and a node."""
    if found.hashes[ideal] != hashed:
        return False
    for w in range(found.members.shape[1]):
        held = found.members[smaller, w]
        if w == node >> 6:
            held |= np.uint64(1) << np.uint64(node & 63)
        if found.members[ideal, w] != held:
            return False
    return True


@inlined_njit
def _grow(
    edges: _Edges, found: _Found, ideal: int, smaller: int, node: int, most_ready: int
) -> bool:
    """Fills in a new ideal, a smaller one and a node; False where too many nodes are ready."""
    members, nodes = found.members, found.cover_node
    after, before = edges
    for w in range(members.shape[1]):
        members[ideal, w] = members[smaller, w]
    members[ideal, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    end = found.cover_ptr[ideal]
    most_end = end + most_ready
    for k in range(found.cover_ptr[smaller], found.cover_ptr[smaller + 1]):
        if nodes[k] != node:
            nodes[end] = nodes[k]
            end += 1
    for k in range(after.ptr[node], after.ptr[node + 1]):
        v = after.entries[k]
        free = True
        # From the last on, which is the likeliest to be missing.
        for j in range(before.ptr[v + 1] - 1, before.ptr[v] - 1, -1):
            u = before.entries[j]
            if not members[ideal, u >> 6] >> np.uint64(u & 63) & np.uint64(1):
                free = False
                break
        if free:
            if end == most_end:
                return False
            nodes[end] = v
            end += 1
    found.cover_ptr[ideal + 1] = end
    return True
