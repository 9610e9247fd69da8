"""Order ideals: the sets of units that can have run when a chip hands over to the next one.

An ideal holds with each node all its ancestors. The chips up to any link hold an ideal, so a
partition is a chain of ideals. Graphs that are nearly a chain have few: Tarnawski et al. 2020,
section 5.1, solve such placement problems by dynamic programming over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import inlined_njit, lean_njit
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words

MOST_BYTES = 1 << 26
"""What the bitsets of all ideals may take."""

FIRST_IDEALS = 1024
"""Ideals that there is room for at first, a power of two."""

_DONE, _FULL, _TOO_MANY = 0, 1, 2
"""How a search for ideals ends."""

_Number = TypeVar("_Number", bound=np.generic)


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


class _Edges(NamedTuple):
    """Of a rule graph, as there."""

    next_ptr: Longs
    next_nodes: Ints
    before_ptr: Longs
    before_nodes: Ints


class _Found(NamedTuple):
    """Ideals in the order in which they are found, with room for R of them.

    Attributes:
        members: `[R, ceil(n / 64)]`, bitset of each.
        hashes: `[R]`, of the bitsets.
        cover_ptr: `[R + 1]`, CSR of the nodes that an ideal can have more, known when it is found.
        cover_node: `[R r]`, those nodes, at most r each.
        covers: `[R r]`, the ideals with them, known when the ideal was looked at.
        slots: `[4 R]`, ideals by hash, -1 where none is; a power of two.
        counts: `[2]`, ideals that are found, and those of them that were looked at.
    """

    members: Words
    hashes: Words
    cover_ptr: Longs
    cover_node: Ints
    covers: Ints
    slots: Ints
    counts: Longs


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
    first = np.flatnonzero(np.diff(graph.before_ptr) == 0)
    if first.size > most_ready:
        return None
    edges = _Edges(graph.next_ptr, graph.next_nodes, graph.before_ptr, graph.before_nodes)
    found = _with_room(_only_empty(n, first), FIRST_IDEALS, most_ready)
    while (end := _find(edges, found, most, most_ready)) == _FULL:
        found = _with_room(found, 2 * found.hashes.size, most_ready)
    if end == _TOO_MANY:
        return None
    count = int(found.counts[0])
    size = int(found.cover_ptr[count])
    return OrderIdeals(
        members=found.members[:count].copy(),
        cover_ptr=found.cover_ptr[: count + 1].copy(),
        covers=found.covers[:size].copy(),
        cover_node=found.cover_node[:size].copy(),
    )


def _only_empty(num_nodes: int, first: npt.NDArray[np.int64]) -> _Found:
    return _Found(
        members=np.zeros((1, (num_nodes + 63) // 64), np.uint64),
        hashes=np.zeros(1, np.uint64),
        cover_ptr=np.array([0, first.size], np.int64),
        cover_node=first.astype(np.int32),
        covers=np.zeros(first.size, np.int32),
        slots=np.zeros(0, np.int32),
        counts=np.array([1, 0], np.int64),
    )


def _with_room(found: _Found, ideals: int, most_ready: int) -> _Found:
    """The same ideals, with room for so many."""
    longer = _Found(
        members=_longer(found.members, ideals),
        hashes=_longer(found.hashes, ideals),
        cover_ptr=_longer(found.cover_ptr, ideals + 1),
        cover_node=_longer(found.cover_node, ideals * most_ready),
        covers=_longer(found.covers, ideals * most_ready),
        slots=np.full(4 * ideals, -1, np.int32),
        counts=found.counts,
    )
    _enter_all(longer)
    return longer


def _longer(rows: npt.NDArray[_Number], size: int) -> npt.NDArray[_Number]:
    longer = np.zeros((size, *rows.shape[1:]), rows.dtype)
    longer[: rows.shape[0]] = rows
    return longer


@lean_njit
def _enter_all(found: _Found) -> None:
    """Fills the table of hashes, which is empty."""
    last = np.uint64(found.slots.size - 1)
    for i in range(found.counts[0]):
        slot = found.hashes[i] & last
        while found.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        found.slots[slot] = i


@lean_njit
def _find(edges: _Edges, found: _Found, most: int, most_ready: int) -> int:
    """Looks at ideals until all are found, there is no room for another, or too many are there."""
    last = np.uint64(found.slots.size - 1)
    count, at = found.counts[0], found.counts[1]
    while at < count:
        for k in range(found.cover_ptr[at], found.cover_ptr[at + 1]):
            v = found.cover_node[k]
            hashed = np.uint64(found.hashes[at] ^ _mixed(v))
            slot = hashed & last
            while found.slots[slot] >= 0 and not _is_grown(found, found.slots[slot], hashed, at, v):
                slot = (slot + np.uint64(1)) & last
            if found.slots[slot] < 0:
                if count == most:
                    return _TOO_MANY
                if count == found.hashes.size:
                    # What was begun is looked at again, and finds what it found.
                    found.counts[0], found.counts[1] = count, at
                    return _FULL
                found.slots[slot] = count
                found.hashes[count] = hashed
                if not _grow(edges, found, count, at, v, most_ready):
                    return _TOO_MANY
                count += 1
            found.covers[k] = found.slots[slot]
        at += 1
    found.counts[0], found.counts[1] = count, at
    return _DONE


@inlined_njit
def _mixed(node: int) -> np.uint64:
    """A node's number spread over 64 bits: the last steps of SplitMix64."""
    mixed = np.uint64(node + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inlined_njit
def _is_grown(found: _Found, ideal: int, hashed: np.uint64, smaller: int, node: int) -> bool:
    """Whether an ideal is a smaller one and a node."""
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
    for w in range(members.shape[1]):
        members[ideal, w] = members[smaller, w]
    members[ideal, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    end = found.cover_ptr[ideal]
    most_end = end + most_ready
    for k in range(found.cover_ptr[smaller], found.cover_ptr[smaller + 1]):
        if nodes[k] != node:
            nodes[end] = nodes[k]
            end += 1
    for k in range(edges.next_ptr[node], edges.next_ptr[node + 1]):
        v = edges.next_nodes[k]
        free = True
        # From the last on, which is the likeliest to be missing.
        for j in range(edges.before_ptr[v + 1] - 1, edges.before_ptr[v] - 1, -1):
            u = edges.before_nodes[j]
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
