"""Dimension classes: dimensions of all tensors of a graph that are divided together or not at all.

Two dimensions are of one class if some op's rule makes them of the same factor; the classes are
the transitive closure (Shardy's factor propagation, Auto-MAP's linkage groups). Nothing is ever
divided in two different ways at two places, so that no tensor has to be redistributed.

Auto-MAP (Wang et al. 2020, section 3.2) finds the group of a dimension by dividing it alone and
following what that forces onto other tensors. Over rules that make dimensions equal, this is the
dimension's class, so that all groups are found at once.

Dimensions of several factors whose major one cannot be divided: then the next one is.

A projection to queries, keys and values that is reshaped to `3 h d` belongs to the factor of 3.
Where that is taken apart later, by a `Gather` or a `Split`, it has to stay whole, and the heads
below it would stay whole with it. They are free if the op that merges them is read as one that
needs the factor of 3 whole: every device then has its heads of each of the three.

Nothing that could be divided before is lost. What an op is read otherwise for was blocked, and so
was what is below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_passes.parallelism.classes import joined_dimensions
from mcm_passes.parallelism.rules.rule_templates import Block, SlotTemplate, rule_template
from mcm_passes.parallelism.rules.ruled_graph import RuledGraph, ruled_graph, template_table

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
    """Use of the reduced value, if it is to normalise `value` along `axes`."""
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
    """Return whether the reduced axes are gone, or of size 1."""
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


_MAY_BE_FREE = (Block.NONE, Block.MINOR)
"""Reasons to block that are none, or go away with what is above."""

_DIVISIBLE = (FactorKind.PASS, FactorKind.REDUCE)

Kept = dict[int, frozenset[int]]
"""Of ops the factors that are kept whole."""


def divided_below_whole(
    ruled: RuledGraph, joined: joined_dimensions.JoinedDimensions
) -> tuple[RuledGraph, joined_dimensions.JoinedDimensions]:
    """The graph with such ops read otherwise, and its classes.

    Args:
        ruled: the graph.
        joined: its classes.
    """
    kept = _candidates(ruled, joined)
    if not kept:
        return ruled, joined
    tried = _with_kept(ruled, kept)
    found = joined_dimensions.join_dimensions(tried)
    useful = {
        node: factors
        for node, given in kept.items()
        if (factors := _useful(tried, found, node, given))
    }
    if useful == kept:
        return tried, found
    if not useful:
        return ruled, joined
    tried = _with_kept(ruled, useful)
    return tried, joined_dimensions.join_dimensions(tried)


def _candidates(ruled: RuledGraph, joined: joined_dimensions.JoinedDimensions) -> Kept:
    """Factors that are blocked for themselves, above others that nothing but their place blocks."""
    merged = ruled.rules.merged.chosen(ruled.node_rule)
    node = merged.owners
    if not len(node):
        return {}
    slot, place, factor = merged.entries.T
    of_factor = joined.factor_class[joined.factor_ptr[node] + factor]
    is_blocked = of_factor >= 0
    is_blocked[is_blocked] = ~np.isin(joined.block[of_factor[is_blocked]], _MAY_BE_FREE)
    kept: dict[int, set[int]] = defaultdict(set)
    columns = (node[is_blocked], slot[is_blocked], place[is_blocked])
    for number, at, dim in zip(*(column.tolist() for column in columns), strict=True):
        kept[number] |= _to_keep(ruled, joined, number, at, dim)
    return {number: frozenset(factors) for number, factors in kept.items() if factors}


def _to_keep(
    ruled: RuledGraph, joined: joined_dimensions.JoinedDimensions, node: int, slot: int, dim: int
) -> set[int]:
    """Factors of a dimension above the first that may be free; none if there is no such one."""
    rule = ruled.rule_of(node).rule
    first = int(joined.factor_ptr[node])
    above: set[int] = set()
    for factor in _dim(rule, slot, dim):
        if rule.factors[factor].size is None:
            break
        if rule.factors[factor].size == 1 or rule.factors[factor].kind is FactorKind.REPLICATE:
            continue
        index = int(joined.factor_class[first + factor])
        block = Block(int(joined.block[index])) if index >= 0 else Block.MINOR
        if above and block in _MAY_BE_FREE and rule.factors[factor].kind in _DIVISIBLE:
            return above
        above.add(factor)
    return set()


def _dim(rule: ShardingRule, slot: int, dim: int) -> tuple[int, ...]:
    dims = (rule.inputs + rule.outputs)[slot]
    assert dims is not None
    return dims[dim]


def _with_kept(ruled: RuledGraph, kept: Kept) -> RuledGraph:
    templates: list[SlotTemplate] = list(ruled.rules.templates)
    numbers: dict[tuple[int, frozenset[int]], int] = {}
    node_rule: NDArray[np.int32] = ruled.node_rule.copy()
    for node, factors in kept.items():
        key = int(ruled.node_rule[node]), factors
        if key not in numbers:
            numbers[key] = len(templates)
            templates.append(_keeping(templates[key[0]].rule, factors))
        node_rule[node] = numbers[key]
    return replace(ruled, node_rule=node_rule, rules=template_table(templates))


def _keeping(rule: ShardingRule, kept: frozenset[int]) -> SlotTemplate:
    factors = tuple(
        replace(factor, kind=FactorKind.REPLICATE, reduction="sum") if index in kept else factor
        for index, factor in enumerate(rule.factors)
    )
    return rule_template(replace(rule, factors=factors), kept)


def _useful(
    tried: RuledGraph, found: joined_dimensions.JoinedDimensions, node: int, kept: frozenset[int]
) -> frozenset[int]:
    """Those of the kept factors below which something can be divided now."""
    rule = tried.rule_of(node).rule
    useful: set[int] = set()
    first = int(tried.slot_ptr[node])
    for slot, dim, _, _, runs in tried.rule_of(node).members.tolist():
        value = int(tried.slot_value[first + slot])
        if runs == 1 or value < 0 or dim >= tried.rank(value):
            continue
        index = int(found.class_of[int(tried.dim_ptr[value]) + dim])
        if index >= 0 and found.block[index] == Block.NONE and found.size[index] > 1:
            useful.update(kept.intersection(_dim(rule, slot, dim)))
    return frozenset(useful)
