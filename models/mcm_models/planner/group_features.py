"""What a planner sees of groups of ops: compiled, because every sample groups all ops anew."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Ints
from mcm_models.planner.op_features import OpFeatures

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
