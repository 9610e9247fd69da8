"""What the planner sees of ops and of groups of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.boxes.box import StepProblem

OUTPUTS = 5
"""Outputs of an op whose sizes are seen, as in the authors' controller; it sees their dims, and a
step has bytes."""

ADJACENT = 20
"""Neighbours of an op that are seen, as in the controller: half of them makers of what it reads,
half readers of what it makes (a choice; the controller mixes them)."""


@dataclass(frozen=True, eq=False)
class OpFeatures:
    """Features of U units and N ops. A unit is a set of ops that run together.

    Attributes:
        unit_type: `[U]`, type of the unit's op that takes longest, a number below `types`.
        unit_values: `[U, 1 + OUTPUTS + ADJACENT]`: the number of outputs over `OUTPUTS`, their
            sizes as logarithms of bytes over that of a GiB, and neighbours as their numbers in the
            order of ops over N, with -1 where there are none.
        op_type: `[N]`.
        op_sizes: `[N, 1 + OUTPUTS]`, as in `unit_values`.
        edges: `[2, E]`, makers and readers, ops.
        types: T.
    """

    unit_type: Ints
    unit_values: npt.NDArray[np.float32]
    op_type: Ints
    op_sizes: npt.NDArray[np.float32]
    edges: Ints
    types: int


def op_features(problem: StepProblem) -> OpFeatures:
    """Features of a problem's ops."""
    names, op_type = np.unique(np.array(problem.op_types, dtype=np.str_), return_inverse=True)
    sizes = _output_sizes(problem)
    edges = problem.edges
    adjacent = np.full((problem.num_ops, ADJACENT), -1.0, np.float32)
    half = ADJACENT // 2
    by_maker = (edges[:, 0], edges[:, 1])
    order = np.lexsort((edges[:, 0], edges[:, 1]))
    by_reader = (edges[order, 1], edges[order, 0])
    for first, (owner, other) in ((0, by_reader), (half, by_maker)):
        rank = _ranks(owner)
        seen = rank < half
        adjacent[owner[seen], first + rank[seen]] = other[seen] / max(problem.num_ops, 1)
    chosen = representatives(problem)
    return OpFeatures(
        unit_type=op_type[chosen].astype(np.int32),
        unit_values=np.concatenate([sizes, adjacent], axis=1)[chosen],
        op_type=op_type.astype(np.int32),
        op_sizes=sizes,
        edges=np.ascontiguousarray(edges.T),
        types=len(names),
    )


def representatives(problem: StepProblem) -> Longs:
    """`[U]`, of each set of ops that run together the one that takes longest, of equals the first.

    What an op takes is its time on the fastest kind of device.
    """
    fastest = problem.time_s.min(axis=1)
    order = np.lexsort((np.arange(problem.num_ops), -fastest, problem.together))
    first = np.ones(problem.num_ops, np.bool_)
    first[1:] = problem.together[order[1:]] != problem.together[order[:-1]]
    return order[first]


def _output_sizes(problem: StepProblem) -> npt.NDArray[np.float32]:
    made = np.flatnonzero(problem.producer >= 0)
    made = made[np.argsort(problem.producer[made], kind="stable")]
    maker = problem.producer[made]
    sizes = np.zeros((problem.num_ops, 1 + OUTPUTS), np.float32)
    sizes[:, 0] = np.bincount(maker, minlength=problem.num_ops) / OUTPUTS
    rank = _ranks(maker)
    seen = rank < OUTPUTS
    logs = np.log2(1.0 + problem.value_bytes[made[seen]]) / 30.0
    sizes[maker[seen], 1 + rank[seen]] = logs
    return sizes


def _ranks(owners: Ints) -> Longs:
    """Place of each entry among those of its owner, who stand together."""
    if not len(owners):
        return np.empty(0, np.int64)
    begin = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    lengths = np.diff(np.append(begin, len(owners)))
    return np.arange(len(owners)) - np.repeat(begin, lengths)


Singles = npt.NDArray[np.float32]


def group_features(features: OpFeatures, group_of: Ints, groups: int) -> Singles:
    """`[K, M, T + 1 + OUTPUTS + 2 M]`: shares of op types, mean sizes, connections to and from.

    The first layer that reads shares of types is their embedding: the mean of its rows is the mean
    embedding that the paper speaks of. Connections are counts over one more than the largest of
    the group, as in the authors' controller; groups without ops are zero.

    Args:
        features: of N ops.
        group_of: `[K, N]`, numbers below `groups`.
        groups: M.
    """
    count, width = len(group_of), features.types + features.op_sizes.shape[1]
    found = np.zeros((count, groups, width + 2 * groups), np.float32)
    for k in range(count):
        _fill(
            features.op_type,
            features.op_sizes,
            features.edges,
            np.ascontiguousarray(group_of[k], dtype=np.int32),
            features.types,
            found[k],
        )
    return found


@entry_njit
def _fill(
    op_type: Ints, op_sizes: Singles, edges: Ints, group_of: Ints, types: int, found: Singles
) -> None:
    groups = len(found)
    sizes = op_sizes.shape[1]
    members = np.zeros(groups, np.int32)
    for n in range(len(op_type)):
        g = group_of[n]
        members[g] += 1
        found[g, op_type[n]] += 1.0
        for c in range(sizes):
            found[g, types + c] += op_sizes[n, c]
    begin = types + sizes
    for e in range(edges.shape[1]):
        g, h = group_of[edges[0, e]], group_of[edges[1, e]]
        found[g, begin + h] += 1.0
        found[h, begin + groups + g] += 1.0
    for g in range(groups):
        if members[g] == 0:
            continue
        for c in range(begin):
            found[g, c] /= members[g]
        most = np.float32(0.0)
        for c in range(begin, begin + 2 * groups):
            most = max(most, found[g, c])
        for c in range(begin, begin + 2 * groups):
            found[g, c] /= most + np.float32(1.0)
