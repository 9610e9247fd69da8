"""In how many runs of consecutive elements a part of each dimension is divided.

One run, a contiguous part, is what there is unless ops join pieces: of queries, keys and values
that are `Split` from one projection, `(!c d) -> d, d, d`, each device has a part of each, which
are three runs of the projection. Ops fix how the runs of their dimensions compare, not how many
there are, so that from one dimension of a class follow those of all others. The least whole
numbers are taken.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

ONE = Fraction(1)


def division_runs(
    num_dims: int, dim: Int32s, factor: Int32s, above: Int32s, of_member: Int32s
) -> tuple[Int64s, dict[int, int]]:
    """Runs of every dimension, and classes for which there are none.

    Args:
        num_dims: dimensions of the graph.
        dim: `[M]`, the dimension of each member of a factor of an op.
        factor: `[M]`, the factor, numbered over all ops.
        above: `[M]`, runs of the dimension for each run of the factor.
        of_member: `[M]`, the class of the dimension.

    Returns:
        `[num_dims]` runs; classes whose ops contradict each other, with a factor that does.
    """
    runs = np.ones(num_dims, dtype=np.int64)
    joined = np.unique(of_member[above != 1])
    if not len(joined):
        return runs, {}
    contradicting: dict[int, int] = {}
    rows = np.flatnonzero(np.isin(of_member, joined))
    of_class: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (of_member[rows], dim[rows], factor[rows], above[rows])
    for index, *member in zip(*(column.tolist() for column in columns), strict=True):
        of_class[index].append((member[0], member[1], member[2]))
    for index, members in of_class.items():
        found = _of_class(members)
        if isinstance(found, int):
            contradicting[index] = found
        else:
            runs[list(found)] = list(found.values())
    return runs, contradicting


def _of_class(members: Sequence[tuple[int, int, int]]) -> dict[int, int] | int:
    """The least runs of the dimensions of one class, or a factor that contradicts others."""
    of_dim: dict[int, list[tuple[int, int]]] = defaultdict(list)
    of_factor: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for dim, factor, above in members:
        of_dim[dim].append((factor, above))
        of_factor[factor].append((dim, above))
    start = members[0][0]
    relative = {start: ONE}
    of_loops: dict[int, Fraction] = {}
    pending = deque([start])
    while pending:
        dim = pending.popleft()
        for factor, above in of_dim[dim]:
            loop = relative[dim] / above
            if of_loops.setdefault(factor, loop) != loop:
                return factor
            for other, over in of_factor[factor]:
                if other not in relative:
                    relative[other] = loop * over
                    pending.append(other)
    scale = math.lcm(*(loop.denominator for loop in of_loops.values()))
    least = math.gcd(*(int(loop * scale) for loop in of_loops.values()))
    return {dim: int(found * scale) // least for dim, found in relative.items()}
