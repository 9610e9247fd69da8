"""Which nodes of a graph are connected with each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Longs

Nodes = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@entry_njit
def connected_parts(source: Nodes, target: Nodes, n: int) -> Longs:
    """`[n]`, the lowest node that each is connected with."""
    parent = np.arange(n)
    for e in range(source.size):
        a, b = source[e], target[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    for u in range(n):
        parent[u] = parent[parent[u]]
    return parent
