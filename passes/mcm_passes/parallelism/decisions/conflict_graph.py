"""The conflicts of a decision problem as other algorithms want them: dense, or in parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem


def dense_conflicts(problem: DecisionProblem) -> NDArray[np.bool_]:
    """`[K, K]` bool, symmetric."""
    count = problem.num_classes
    octets = np.ascontiguousarray(problem.conflicts.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=count, bitorder="little").astype(bool)


def components(linked: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Connected parts of a graph, each in order, by first member.

    Args:
        linked: `[K, K]` bool, symmetric.
    """
    left = np.ones(len(linked), dtype=bool)
    parts: list[NDArray[np.int64]] = []
    for first in range(len(linked)):
        if not left[first]:
            continue
        part = np.zeros(len(linked), dtype=bool)
        part[first] = True
        front = part
        while front.any():
            front = linked[front].any(axis=0) & ~part
            part = part | front
        left &= ~part
        parts.append(np.flatnonzero(part))
    return parts
