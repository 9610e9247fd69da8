"""Dimension classes: dimensions of all tensors of a graph that are divided together or not at all.

Two dimensions are of one class if some op's rule makes them of the same factor; the classes are
the transitive closure (Shardy's factor propagation, Auto-MAP's linkage groups). Nothing is ever
divided in two different ways at two places, so that no tensor has to be redistributed.

Auto-MAP (Wang et al. 2020, section 3.2) finds the group of a dimension by dividing it alone and
following what that forces onto other tensors. Over rules that make dimensions equal, this is the
dimension's class, so that all groups are found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_passes.parallelism.classes import joined_dimensions
from mcm_passes.parallelism.classes.kept_factors import divided_below_whole
from mcm_passes.parallelism.rules.ruled_graph import RuledGraph, ruled_graph

Normalised = tuple[ir.Value, int, ir.Node, str]
"""A value, its dimension, the reducing op, and what the ops around it do."""

_NORMS = frozenset({"ReduceMean", "ReduceSumSquare", "ReduceL2", "ReduceL1", "ReduceSum"})
_LOGARITHMS = frozenset({"ReduceLogSumExp"})
_REDUCTIONS = _NORMS | _LOGARITHMS
_ALONG = frozenset(
    {"Abs", "Add", "Cast", "Clip", "Div", "Exp", "Expand", "Identity", "Log", "Max", "Mul", "Neg",
     "Pow", "Reciprocal", "Reshape", "Sqrt", "Squeeze", "Sub", "Unsqueeze", "Where"}
)  # fmt: skip
"""Ops through which a reduced value is followed."""

_MOST_STEPS = 24
"""Ops after a reduction that are looked at."""


def normalised_axes(model: ir.Model) -> list[Normalised]:
    """Axes of a model's main graph that are normalised along.

    Args:
        model: with shapes.
    """
    found: list[Normalised] = []
    reductions = [
        node
        for node in model.graph
        if node.op_type in _REDUCTIONS and node.domain in ("", "ai.onnx")
    ]
    for node in reductions:
        value = node.inputs[0]
        if value is None or value.shape is None:
            continue
        axes = _axes(node, len(value.shape))
        what = _normalisation(node, value, axes)
        if what is not None:
            found += [(value, axis, node, what) for axis in axes]
    return found


def _axes(node: ir.Node, rank: int) -> tuple[int, ...]:
    """Reduced axes; none where they are unknown."""
    attribute = node.attributes.get("axes")
    axes: list[int] | None = None
    if attribute is not None:
        axes = list(attribute.as_ints())
    elif len(node.inputs) > 1 and node.inputs[1] is not None:
        tensor = ir.convenience.get_const_tensor(node.inputs[1])
        if tensor is None:
            return ()
        axes = [int(axis) for axis in tensor.numpy().ravel()]
    if not axes:
        return tuple(range(rank))
    return tuple(sorted({axis % rank for axis in axes}))


def _normalisation(node: ir.Node, value: ir.Value, axes: tuple[int, ...]) -> str | None:
    """What the reduced value is used for, if it is to normalise `value` along `axes`."""
    shape = value.shape
    assert shape is not None
    kept = [axis for axis in axes if shape[axis] != 1]
    if not kept:
        return None
    is_softmax = _is_exponential(value)
    start = (node.outputs[0], node.op_type in _LOGARITHMS)
    pending, seen, steps = [start], {start[0]}, 0
    while pending and steps < _MOST_STEPS:
        reduced, is_logarithm = pending.pop(0)
        for use in reduced.uses():
            steps += 1
            user = use.node
            if user.op_type not in _ALONG or user.domain not in ("", "ai.onnx"):
                continue
            result = user.outputs[0]
            if result in seen:
                continue
            if result.shape == shape and user.op_type in ("Div", "Mul", "Sub"):
                if _divides(user, use.idx, is_logarithm):
                    return _name(node, is_softmax or is_logarithm)
                continue
            seen.add(result)
            if _is_narrow(result, value, kept):
                pending.append((result, is_logarithm or user.op_type == "Log"))
            elif user.op_type in ("Expand", "Mul", "Div"):
                # Spread over the axis first, or joined with a scale: `x * (scale / root)`.
                pending.append((result, is_logarithm))
    return None


def _divides(user: ir.Node, operand: int, is_logarithm: bool) -> bool:
    if user.op_type == "Sub":
        return is_logarithm and operand == 1
    return user.op_type == "Mul" or operand == 1


def _is_narrow(reduced: ir.Value, value: ir.Value, axes: list[int]) -> bool:
    """Whether the reduced axes are gone, or of size 1."""
    if reduced.shape is None or value.shape is None:
        return False
    if len(reduced.shape) < len(value.shape):
        return len(reduced.shape) <= len(value.shape) - len(axes)
    return all(reduced.shape[axis] == 1 for axis in axes if axis < len(reduced.shape))


def _is_exponential(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Exp"


def _name(node: ir.Node, is_softmax: bool) -> str:
    if is_softmax:
        return "softmax"
    return "layer normalisation" if node.op_type == "ReduceMean" else "normalisation"


@dataclass(frozen=True, eq=False)
class DimensionClasses(joined_dimensions.JoinedDimensions):
    """The classes of a graph: see `JoinedDimensions`.

    Attributes:
        ruled: the graph, its dimensions in one row, and its rules.
    """

    ruled: RuledGraph

    def of(self, value: ir.Value) -> NDArray[np.int32]:
        """Classes of the dimensions of `value`."""
        index = self.ruled.value_index[value]
        return self.class_of[self.ruled.dim_ptr[index] : self.ruled.dim_ptr[index + 1]]

    def runs_of(self, value: ir.Value, dim: int) -> int:
        """Of how many runs a part of a dimension is made; see `runs`."""
        return int(self.runs[self.ruled.dim_of(value, dim)])

    def conflicts(self, of: NDArray[np.int32] | None = None) -> NDArray[np.bool_]:
        """Classes that meet in an op, and so cannot both be divided.

        Args:
            of: the classes asked for, without repetition; all by default, which takes memory that
                grows with the square of their number.

        Returns:
            `[len(of), len(of)]`.
        """
        chosen = np.arange(len(self.size), dtype=np.int32) if of is None else of
        number = np.full(len(self.size), -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        return joined_dimensions.meeting_classes(
            self.factor_ptr, self.factor_class, number, len(chosen)
        )

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
    ruled, found = divided_below_whole(ruled, joined_dimensions.join_dimensions(ruled))
    return DimensionClasses(**vars(found), ruled=ruled)


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
