"""Order ideals: the sets of units that can have run when a chip hands over to the next one.

An ideal holds with each node all its ancestors. The chips up to any link hold an ideal, so a
partition is a chain of ideals. Graphs that are nearly a chain have few: Tarnawski et al. 2020,
section 5.1, solve such placement problems by dynamic programming over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words

MOST_BYTES = 1 << 26
"""What the bitsets of all ideals may take."""


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


def order_ideals(graph: RuleGraph, most: int) -> OrderIdeals | None:
    """All ideals of `graph`, or None where there are more than `most` or `MOST_BYTES` of them.

    O(I n / 64) each step.
    """
    n = graph.num_nodes
    most = min(most, 8 * MOST_BYTES // max(n, 1))
    if n >= most:
        # A chain has n + 1, and no graph has fewer.
        return None
    following = [
        graph.next_nodes[graph.next_ptr[v] : graph.next_ptr[v + 1]].tolist() for v in range(n)
    ]
    needs = [0] * n
    for v in range(n):
        for u in graph.before_nodes[graph.before_ptr[v] : graph.before_ptr[v + 1]].tolist():
            needs[v] |= 1 << u
    index: dict[int, int] = {0: 0}
    sets = [0]
    ready = [tuple(v for v in range(n) if not needs[v])]
    ptr, covers, nodes = [0], list[int](), list[int]()
    at = 0
    while at < len(sets):
        held = sets[at]
        for v in ready[at]:
            grown = held | 1 << v
            other = index.get(grown)
            if other is None:
                other = index[grown] = len(sets)
                if other >= most:
                    return None
                sets.append(grown)
                freed = (w for w in following[v] if not needs[w] & ~grown)
                ready.append((*(w for w in ready[at] if w != v), *freed))
            covers.append(other)
            nodes.append(v)
        ptr.append(len(covers))
        ready[at] = ()
        at += 1
    words = (n + 63) // 64
    raw = b"".join(held.to_bytes(words * 8, "little") for held in sets)
    return OrderIdeals(
        members=np.frombuffer(raw, "<u8").reshape(len(sets), words).astype(np.uint64),
        cover_ptr=np.array(ptr, np.int64),
        covers=np.array(covers, np.int32),
        cover_node=np.array(nodes, np.int32),
    )
