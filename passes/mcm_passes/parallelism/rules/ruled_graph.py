"""A graph and the sharding rules of its ops as arrays: the input of all propagation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.arrays.rows import Rows, starts
from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_compiler.graph.constants import consumed_values
from mcm_passes.parallelism.rules.rule_templates import Block, SlotTemplate, rule_template

UNKNOWN_EXTENT = 0
"""Extent of a dimension whose size is not known: neutral in a greatest common divisor."""

WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Ops with subgraphs, which may read any value as a whole."""

_SELF_MADE = frozenset({"Constant", "ConstantOfShape"})
"""Ops that make any part of their result as well as all of it, if they read only constants."""


@dataclass(frozen=True, eq=False)
class TemplateTable:
    """The distinct rules of a graph, with a row of each table for each rule.

    Attributes:
        templates: the rules.
        members: see `SlotTemplate.members`.
        merged: see `SlotTemplate.merged`.
        stuck: see `SlotTemplate.stuck`.
        blocks: see `SlotTemplate.factor_block`.
        ranks: see `SlotTemplate.ranks`.
    """

    templates: tuple[SlotTemplate, ...]
    members: Rows
    merged: Rows
    stuck: Rows
    blocks: Rows
    ranks: Rows


@dataclass(frozen=True, eq=False)
class RuledGraph:
    """Values, their dimensions in one row, and the ops between them.

    Attributes:
        values: all values of the main graph.
        value_index: number of each value.
        dim_ptr: `[values + 1]` int32, the dims of value v are `dim_ptr[v]:dim_ptr[v + 1]`.
        extents: `[dims]` int64, `UNKNOWN_EXTENT` where unknown.
        nodes: the ops that have a rule, in graph order.
        node_rule: `[nodes]` int32, number of the rule in `rules`.
        slot_ptr: `[nodes + 1]` int32, operands, then results, of each op.
        slot_value: `[slots]` int32, number of the value; -1 for one left out.
        rules: the distinct rules.
        stuck_dims: `[stuck]` int32 dims that ops without a rule, or patterns of ops, need whole.
        stuck_why: `[stuck]` int32 `Block`.
        stuck_by: the op (and what it does, where it needs words) of each of them.
    """

    values: tuple[ir.Value, ...]
    value_index: dict[ir.Value, int]
    dim_ptr: NDArray[np.int32]
    extents: NDArray[np.int64]
    nodes: tuple[ir.Node, ...]
    node_rule: NDArray[np.int32]
    slot_ptr: NDArray[np.int32]
    slot_value: NDArray[np.int32]
    rules: TemplateTable
    stuck_dims: NDArray[np.int32]
    stuck_why: NDArray[np.int32]
    stuck_by: tuple[tuple[ir.Node, str], ...]

    def rule_of(self, node: int) -> SlotTemplate:
        """The rule of an op by its number."""
        return self.rules.templates[self.node_rule[node]]

    def rank(self, value: int) -> int:
        """How many dimensions a value has; 0 also where that is unknown."""
        return int(self.dim_ptr[value + 1] - self.dim_ptr[value])

    def dim_of(self, value: ir.Value, dim: int) -> int:
        """Number of a dimension in the row of all."""
        return int(self.dim_ptr[self.value_index[value]]) + dim

    def place(self, dim: int) -> tuple[ir.Value, int]:
        """The value and the dimension of it that stand at a number in the row of all."""
        value = int(np.searchsorted(self.dim_ptr, dim, side="right")) - 1
        return self.values[value], dim - int(self.dim_ptr[value])


def ruled_graph(
    graph: ir.Graph,
    ruled: Sequence[tuple[ir.Node, ShardingRule]],
    patterns: Sequence[tuple[ir.Value, int, ir.Node, str]] = (),
) -> RuledGraph:
    """The arrays of a graph.

    Args:
        graph: the main graph, in topological order.
        ruled: ops with their rules, in graph order; what the others touch stays whole.
        patterns: dimensions that ops together need whole: value, dim, one of the ops, and what
            they do.
    """
    rows = _Rows()
    for value in graph.inputs:
        rows.number(value)
    # Walking the graph takes longer than walking a list.
    in_order = ruled if len(ruled) == len(graph) else _all_nodes(graph, ruled)
    for node, rule in in_order:
        if node.op_type in _SELF_MADE and _is_self_made(node):
            for value in node.outputs:
                rows.known(value)
        elif rule is None or node.op_type in WITH_BODIES:
            rows.keep_whole(node)
        else:
            rows.take(node, rule)
    for value in graph.initializers.values():
        rows.known(value)
    rows.stuck += [(*pattern, Block.NORMALISED) for pattern in patterns]
    dims, why, by = _stuck_arrays(rows.values, rows.dim_ptr, rows.stuck)
    return RuledGraph(
        values=tuple(rows.values),
        value_index=rows.values,
        dim_ptr=np.array(rows.dim_ptr, dtype=np.int32),
        extents=np.array(rows.extents, dtype=np.int64),
        nodes=tuple(rows.nodes),
        node_rule=np.array(rows.node_rule, dtype=np.int32),
        slot_ptr=np.array(rows.slot_ptr, dtype=np.int32),
        slot_value=np.array(rows.slot_value, dtype=np.int32),
        rules=template_table(rows.templates),
        stuck_dims=dims,
        stuck_why=why,
        stuck_by=by,
    )


class _Rows:
    """The rows of a `RuledGraph` as they grow; attributes of one name are the same.

    Attributes:
        values: number of each value.
        templates: the distinct rules.
        stuck: value, dim (-1 for all), op, what it does, and why the dim stays whole.
    """

    def __init__(self) -> None:
        self.values: dict[ir.Value, int] = {}
        self.extents: list[int] = []
        self.dim_ptr: list[int] = [0]
        self.templates: list[SlotTemplate] = []
        self.nodes: list[ir.Node] = []
        self.node_rule: list[int] = []
        self.slot_ptr: list[int] = [0]
        self.slot_value: list[int] = []
        self.stuck: list[tuple[ir.Value, int, ir.Node, str, Block]] = []
        self._rule_numbers: dict[int, int] = {}

    def number(self, value: ir.Value) -> int:
        """Gives a value its number and its dimensions a place."""
        shape = value.shape
        if shape is not None:
            self.extents.extend([d if type(d) is int else UNKNOWN_EXTENT for d in shape.dims])
        self.dim_ptr.append(len(self.extents))
        self.values[value] = index = len(self.values)
        return index

    def known(self, value: ir.Value) -> int:
        """The number of a value, which gets one if it has none."""
        index = self.values.get(value)
        return self.number(value) if index is None else index

    def keep_whole(self, node: ir.Node) -> None:
        """Adds what an op without a rule touches, which stays whole."""
        for value in [*consumed_values(node), *node.outputs]:
            self.known(value)
            self.stuck.append((value, -1, node, node.op_type, Block.UNKNOWN))

    def take(self, node: ir.Node, rule: ShardingRule) -> None:
        """Adds an op with its rule."""
        # Rules live as long as `ruled`, and hashing one by its content would take longer.
        index = self._rule_numbers.get(id(rule))
        if index is None:
            self._rule_numbers[id(rule)] = index = len(self.templates)
            self.templates.append(rule_template(rule))
        self.nodes.append(node)
        self.node_rule.append(index)
        self._fill_slots(node, node.inputs, len(rule.inputs))
        self._fill_slots(node, node.outputs, len(rule.outputs))
        self.slot_ptr.append(len(self.slot_value))

    def _fill_slots(self, node: ir.Node, side: Sequence[ir.Value | None], slots: int) -> None:
        """Puts operands or results into the slots of a rule; those without one stay whole."""
        self.slot_value += [-1 if value is None else self.known(value) for value in side]
        missing = slots - len(side)
        if missing > 0:
            self.slot_value += [-1] * missing
        elif missing < 0:
            del self.slot_value[missing:]
            self.stuck += [
                (value, -1, node, node.op_type, Block.UNKNOWN)
                for value in side[missing:]
                if value is not None
            ]


def _all_nodes(
    graph: ir.Graph, ruled: Sequence[tuple[ir.Node, ShardingRule]]
) -> list[tuple[ir.Node, ShardingRule | None]]:
    rules = dict(ruled)
    return [(node, rules.get(node)) for node in graph]


def _is_self_made(node: ir.Node) -> bool:
    return node.domain in ("", "ai.onnx") and all(
        value is None or value.const_value is not None for value in node.inputs
    )


def _stuck_arrays(
    values: dict[ir.Value, int],
    dim_ptr: list[int],
    stuck: list[tuple[ir.Value, int, ir.Node, str, Block]],
) -> tuple[NDArray[np.int32], NDArray[np.int32], tuple[tuple[ir.Node, str], ...]]:
    dims: list[int] = []
    why: list[int] = []
    by: list[tuple[ir.Node, str]] = []
    for value, dim, node, what, block in stuck:
        index = values.get(value)
        if index is None:
            continue
        first, end = dim_ptr[index], dim_ptr[index + 1]
        for number in range(first, end) if dim < 0 else (first + dim,):
            dims.append(number)
            why.append(int(block))
            by.append((node, what))
    return np.array(dims, dtype=np.int32), np.array(why, dtype=np.int32), tuple(by)


def template_table(templates: Sequence[SlotTemplate]) -> TemplateTable:
    """Concatenates rules."""
    # Tables of no rule have their columns as well.
    nothing = rule_template(ShardingRule((), (), ()))

    def joined(table: Callable[[SlotTemplate], Longs]) -> Rows:
        rows = [table(template) for template in templates]
        ptr = starts(np.array([len(row) for row in rows], np.int64))
        return Rows(ptr, np.concatenate([table(nothing), *rows]))

    return TemplateTable(
        templates=tuple(templates),
        members=joined(lambda rule: rule.members),
        merged=joined(lambda rule: rule.merged),
        stuck=joined(lambda rule: rule.stuck),
        blocks=joined(lambda rule: rule.factor_block),
        ranks=joined(lambda rule: rule.ranks),
    )
