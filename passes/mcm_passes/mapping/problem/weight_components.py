"""The topological order that brings each weight in once, where recurrences allow it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Longs, PartitionProblem
from mcm_passes.mapping.problem.untyped_values import joined_units

WORTH_KEEPING = 0.01
"""Share of a chip's memory that a weight must take for its users to be kept together."""


def worth_keeping(problem: PartitionProblem) -> Longs:
    """Shared weights that are large enough for their users to be kept together."""
    heavy = problem.weight_bytes > WORTH_KEEPING * min(problem.limits.sram_bytes)
    return np.flatnonzero(heavy & (np.diff(problem.weight_ptr) > 1))


def by_weight_components(
    problem: PartitionProblem,
    units: npt.NDArray[np.int32],
    source: npt.NDArray[np.int64],
    target: npt.NDArray[np.int64],
) -> Longs:
    """Positions in `units`, component after component (our derivation).

    With all users of a large shared weight as one node, the strongly connected components are the
    recurrences: layers that cannot be done one after the other. Each is done as a whole, after
    all that it reads, so that no weight of another one is asked for in between. Sources come
    just before what reads them first. Linear in units and edges.

    Args:
        problem: gives the weights.
        units: `[n]`, unit at each position of a topological order.
        source: `[E]`, positions of the edges' ends.
        target: `[E]`.
    """
    size = units.size
    # Backwards from the last position, so that sources stand late.
    leads: list[list[int]] = [[] for _ in range(size)]
    for a, b in zip((size - 1 - source).tolist(), (size - 1 - target).tolist(), strict=True):
        leads[b].append(a)
    position = np.full(problem.num_units, -1, np.int64)
    position[units] = np.arange(size - 1, -1, -1)
    together: list[tuple[int, int]] = []
    for w in worth_keeping(problem).tolist():
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        placed = position[users]
        placed = placed[placed >= 0].tolist()
        together += [*pairwise(placed), *pairwise(placed[::-1])]
    component = np.array(joined_units(leads, together)[::-1], np.int64)
    return np.lexsort((np.arange(size), component)).astype(np.int64)
