"""The graph that the ring's rules speak of: units with a place of their own, and their edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows, distinct_rows, starts
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges


def far_of_cuts(made: Longs, read: Longs, n: int) -> Longs:
    """`[n + 1]`, for the cut before each position one past the last reader of what crosses it.

    It never falls. Where every dependency spans at most one chip, the next cut is there or beyond.

    Args:
        made: position of the maker of each dependency.
        read: position of its reader.
        n: positions.
    """
    far = np.arange(n + 1, dtype=np.int64)
    np.maximum.at(far, made + 1, read + 1)
    return np.maximum.accumulate(far)


Words = npt.NDArray[np.uint64]

MAX_CLOSURE_NODES = 32_768
"""Nodes up to which the transitive closure is kept: N^2 / 4 bytes, 256 MiB."""


@dataclass(frozen=True, eq=False)
class RuleGraph:
    """Units that are not clonable, as nodes `0 .. n - 1` in topological order.

    Attributes:
        units: `[n]`, the unit of each node.
        num_chips: chips on the ring.
        after: `[n]` rows: distinct successors of each node, ascending.
        before: `[n]` rows: distinct predecessors of each node, ascending.
        low: `[n]`, lowest chip of each node by pins, closed under the edges.
        high: `[n]`, highest chip, likewise.
    """

    units: Ints
    num_chips: int
    after: Rows
    before: Rows
    low: Ints
    high: Ints

    @property
    def num_nodes(self) -> int:
        """Count of nodes, n."""
        return int(self.units.size)

    def node_of(self, num_units: int) -> Longs:
        """`[N]`, the node of each unit, or -1."""
        nodes = np.full(num_units, -1, np.int64)
        nodes[self.units] = np.arange(self.num_nodes)
        return nodes


def rule_graph(problem: PartitionProblem) -> RuleGraph:
    """The rule graph of a problem.

    Domains are closed under the edges; where pins contradict each other one is empty.
    """
    units = np.flatnonzero(~problem.clonable).astype(np.int32)
    index = np.full(problem.num_units, -1, np.int64)
    index[units] = np.arange(units.size)
    source, target = dependency_edges(problem)
    a, b = index[source], index[target]
    # A clone reads from the host and other clones only, so no edge ends at one that starts at a
    # unit with a place.
    keep = b >= 0
    pinned = problem.pinned_chip[units]
    return from_edges(a[keep], b[keep], units.size, problem.num_chips, units, pinned)


def from_edges(
    source: npt.NDArray[np.int64],
    target: npt.NDArray[np.int64],
    num_nodes: int,
    num_chips: int,
    units: Ints | None = None,
    pinned: Ints | None = None,
) -> RuleGraph:
    """A rule graph of nodes in topological order.

    Args:
        source: `[E]`, node that each edge comes from; edges may be there more than once.
        target: `[E]`, node that it goes to, a higher number.
        num_nodes: n.
        num_chips: C.
        units: `[n]`, the unit of each node; its number where None.
        pinned: `[n]`, chip of each node that has to be there, or -1; none where None.
    """
    n = num_nodes
    after = distinct_rows(source, target, n)
    if units is None:
        units = np.arange(n, dtype=np.int32)
    if pinned is None:
        pinned = np.full(n, -1, np.int32)
    low = np.where(pinned >= 0, pinned, 0).astype(np.int32)
    high = np.where(pinned >= 0, pinned, num_chips - 1).astype(np.int32)
    close_bounds(after, low, high)
    return RuleGraph(units, num_chips, after, after.transposed(n), low, high)


def closure(graph: RuleGraph) -> tuple[Words, Words]:
    """`[n, ceil(n / 64)]` each: bitsets of the ancestors and of the descendants of each node."""
    return _reached(graph.before, False), _reached(graph.after, True)


def nodes_of(bits: Words) -> Longs:
    """The nodes of a bitset `[words]`, ascending."""
    return np.flatnonzero(np.unpackbits(bits.astype("<u8").view(np.uint8), bitorder="little"))


def members_of(bits: Words, count: int) -> Bools:
    """`[S, count]`, the members of bitsets `[S, words]`."""
    raw = np.ascontiguousarray(bits.astype("<u8")).view(np.uint8)
    return np.unpackbits(raw, axis=1, bitorder="little")[:, :count].astype(np.bool_)


def words_of(sets: Sequence[int], count: int) -> Words:
    """`[S, words]`, bitsets of up to `count` nodes each, from whole numbers with those bits."""
    size = 8 * ((count + 63) // 64)
    raw = b"".join(held.to_bytes(size, "little") for held in sets)
    return np.frombuffer(raw, "<u8").reshape(len(sets), size // 8).astype(np.uint64)


def weight_users(problem: PartitionProblem, graph: RuleGraph) -> Rows:
    """`[W]` rows: the nodes that use each weight."""
    weights = Rows(problem.weight_ptr, problem.weight_users.astype(np.int64))
    users = graph.node_of(problem.num_units)[weights.entries]
    counts = np.bincount(weights.owners[users >= 0], minlength=weights.size)
    return Rows(starts(counts), users[users >= 0])


@entry_njit
def close_bounds(after: Rows, low: Ints | Floats, high: Ints | Floats) -> None:
    """Raises lower bounds and lowers upper ones, so that none is above that of a later node."""
    n = low.size
    for u in range(n):
        for k in range(after.ptr[u], after.ptr[u + 1]):
            v = after.entries[k]
            low[v] = max(low[v], low[u])
    for u in range(n - 1, -1, -1):
        for k in range(after.ptr[u], after.ptr[u + 1]):
            high[u] = min(high[u], high[after.entries[k]])


@entry_njit
def _reached(near: Rows, backwards: bool) -> Words:
    """Bitsets of all that each node leads to, where that comes before it, or behind it."""
    n = near.ptr.size - 1
    bits = np.zeros((n, (n + 63) // 64), np.uint64)
    for i in range(n):
        v = n - 1 - i if backwards else i
        for k in range(near.ptr[v], near.ptr[v + 1]):
            u = near.entries[k]
            for w in range(bits.shape[1]):
                bits[v, w] |= bits[u, w]
            bits[v, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
    return bits
