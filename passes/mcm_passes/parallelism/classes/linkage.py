"""Linkage groups: the dimension classes as they are seen from the tensors that are decided about.

Auto-MAP (Wang et al. 2020, section 3.2) finds the group of a dimension by dividing it alone and
following what that forces onto other tensors. Over rules that make dimensions equal, this is the
dimension's class, so that all groups are found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses


@dataclass(frozen=True, eq=False)
class Linkage:
    """The classes that some tensors have dimensions of, numbered in their order.

    Attributes:
        tensors: the V tensors.
        dim_ptr: `[V + 1]` int32, dims of tensor v are `dim_ptr[v]:dim_ptr[v + 1]`.
        group_of: `[D]` int32, group of each dim; -1 for size 1.
        class_of_group: `[K]` int32, the class that each group is.
    """

    tensors: tuple[ir.Value, ...]
    dim_ptr: NDArray[np.int32]
    group_of: NDArray[np.int32]
    class_of_group: NDArray[np.int32]

    def groups(self) -> list[tuple[tuple[str, int], ...]]:
        """Tensor names and dims of every group."""
        members: list[list[tuple[str, int]]] = [[] for _ in self.class_of_group]
        for tensor, value in enumerate(self.tensors):
            first = int(self.dim_ptr[tensor])
            for at in range(first, int(self.dim_ptr[tensor + 1])):
                if self.group_of[at] >= 0:
                    members[self.group_of[at]].append((value.name or "", at - first))
        return [tuple(group) for group in members]


def linkage_groups(classes: DimensionClasses, tensors: Sequence[ir.Value]) -> Linkage:
    """The groups of `tensors`, each of which is a value of the graph."""
    ruled = classes.ruled
    indices = np.array([ruled.value_index[value] for value in tensors], dtype=np.int64)
    first, end = ruled.dim_ptr[indices], ruled.dim_ptr[indices + 1]
    dim_ptr = np.concatenate([[0], np.cumsum(end - first)]).astype(np.int32)
    dims = np.arange(dim_ptr[-1]) + np.repeat(first - dim_ptr[:-1], end - first)
    class_of = classes.class_of[dims]
    seen, at, group_of = np.unique(class_of, return_index=True, return_inverse=True)
    # Groups follow the order of tensors, not the numbers of classes.
    at[seen < 0] = -1
    order = np.argsort(at, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    skipped = int(np.count_nonzero(seen < 0))
    rank[order] = np.arange(len(order), dtype=np.int32) - skipped
    return Linkage(
        tensors=tuple(tensors),
        dim_ptr=dim_ptr,
        group_of=rank[group_of.reshape(-1)],
        class_of_group=seen[order][skipped:].astype(np.int32),
    )
