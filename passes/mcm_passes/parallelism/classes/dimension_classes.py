"""Dimension classes: dimensions of all tensors of a graph that are divided together or not at all.

Two dimensions are of one class if some op's rule makes them of the same factor; the classes are
the transitive closure (Shardy's factor propagation, Auto-MAP's linkage groups). Nothing is ever
divided in two different ways at two places, so that no tensor has to be redistributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_passes.parallelism.classes.joined_dimensions import join_dimensions, meeting_classes
from mcm_passes.parallelism.classes.kept_factors import divided_below_whole
from mcm_passes.parallelism.classes.normalised_axes import normalised_axes
from mcm_passes.parallelism.rules.ruled_graph import RuledGraph, ruled_graph


@dataclass(frozen=True, eq=False)
class DimensionClasses:
    """The classes of a graph.

    Attributes:
        ruled: the graph, its dimensions in one row, and its rules.
        class_of: `[dims]` int32, class of each dimension; -1 for one of size 1.
        runs: `[dims]` int64, of how many runs of consecutive elements a part of each dimension is
            made: 1 where parts are contiguous, 3 for queries, keys and values side by side. Every
            run is divided alike.
        size: `[classes]` int64, in how many units a class can be divided: the smallest number that
            the runs of all members divide into, 0 where it is unknown.
        block: `[classes]` int32 `Block`, why a class cannot be divided.
        factor_ptr: `[nodes + 1]` int32, the factors of an op are `factor_ptr[n]:factor_ptr[n + 1]`.
        factor_class: class of each factor of each op; -1 for one that divides nothing.
        met_at: `[classes]` int32, the op of which two factors are of this class, or that asks for
            other runs than those before it; -1 for none.
    """

    ruled: RuledGraph
    class_of: NDArray[np.int32]
    runs: NDArray[np.int64]
    size: NDArray[np.int64]
    block: NDArray[np.int32]
    factor_ptr: NDArray[np.int32]
    factor_class: NDArray[np.int32]
    met_at: NDArray[np.int32]

    def of(self, value: ir.Value) -> NDArray[np.int32]:
        """Classes of the dimensions of `value`."""
        index = self.ruled.value_index[value]
        return self.class_of[self.ruled.dim_ptr[index] : self.ruled.dim_ptr[index + 1]]

    def runs_of(self, value: ir.Value, dim: int) -> int:
        """Of how many runs a part of a dimension is made; see `runs`."""
        return int(self.runs[self.ruled.dim_of(value, dim)])

    def conflicts(self, of: NDArray[np.int32] | None = None) -> NDArray[np.uint64]:
        """Classes that meet in an op, and so cannot both be divided, as bitmasks.

        Args:
            of: the classes asked for, without repetition; all by default, which takes memory that
                grows with the square of their number.

        Returns:
            `[len(of), ceil(len(of) / 64)]`; bit i is `of[i]`.
        """
        chosen = np.arange(len(self.size), dtype=np.int32) if of is None else of
        number = np.full(len(self.size), -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        return meeting_classes(self.factor_ptr, self.factor_class, number, len(chosen))

    @cached_property
    def value_by_name(self) -> dict[str, ir.Value]:
        """The graph's values that have names."""
        return {value.name: value for value in self.ruled.values if value.name is not None}


def dimension_classes(
    model: ir.Model, ruled: Sequence[tuple[ir.Node, ShardingRule]]
) -> DimensionClasses:
    """Finds the classes of a model's main graph.

    Args:
        model: with shapes, as the importer gives it.
        ruled: its ops with their rules.
    """
    return classes_of(ruled_graph(model.graph, ruled, normalised_axes(model)))


def classes_of(ruled: RuledGraph) -> DimensionClasses:
    """Finds the classes of a graph that is in arrays already."""
    ruled, found = divided_below_whole(ruled, join_dimensions(ruled))
    return DimensionClasses(
        ruled,
        found.class_of,
        found.runs,
        found.size,
        found.block,
        found.factor_ptr,
        found.factor_class,
        found.met_at,
    )
