"""All partitions of a small problem on a ring."""

from __future__ import annotations

from math import comb

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges


def all_partitions(problem: PartitionProblem, most: int) -> Ints | None:
    """`[B, N]`, all partitions that no dependency forbids; None where they are more than `most`.

    Units are in a topological order, so that a unit's place is bounded by those before it.
    """
    units = int((~problem.clonable).sum())
    # Dependencies forbid most where they are a chain: its cuts into 1, 2, ... pieces.
    if sum(comb(units - 1, k) for k in range(min(problem.num_chips, units))) > most:
        return None
    source, target = dependency_edges(problem)
    rows = np.zeros((1, problem.num_units), np.int32)
    for u in np.flatnonzero(~problem.clonable).tolist():
        least = rows[:, source[target == u]].max(axis=1, initial=0)
        choices = problem.num_chips - least
        count = int(choices.sum())
        if count > most * problem.num_chips:
            return None
        first = np.cumsum(choices) - choices
        rows = np.repeat(rows, choices, axis=0)
        rows[:, u] = np.arange(count) - np.repeat(first - least, choices)
    used = np.zeros((len(rows), problem.num_chips), np.bool_)
    fixed = np.flatnonzero(~problem.clonable)
    used[np.repeat(np.arange(len(rows)), fixed.size), rows[:, fixed].ravel()] = True
    rows = rows[used.sum(axis=1) == rows[:, fixed].max(axis=1) + 1]
    return rows if 0 < len(rows) <= most else None


MOST_TRIED = 2_000
"""Partitions that are all tried where what a chip takes depends on other chips' units."""


def tried_partitions(problem: PartitionProblem) -> Ints:
    """`[B, N]`, all partitions where the host reaches only the ends of the package.

    What crosses links then depends on what the first and the last chip hold, which cuts of orders
    and chains of ideals do not know of. None where these know all, or of which there are too many.
    """
    rows = all_partitions(problem, MOST_TRIED) if problem.limits.at_ends else None
    return np.zeros((0, problem.num_units), np.int32) if rows is None else rows
