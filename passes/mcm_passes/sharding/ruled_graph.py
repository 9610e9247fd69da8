"""A graph and the sharding rules of its ops as arrays: the input of all propagation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.ir.constants import consumed_values
from mcm_compiler.sharding_rules import ShardingRule
from mcm_passes.sharding.rule_templates import Block, RuleTemplate, rule_template

UNKNOWN_EXTENT = 0
"""Extent of a dimension whose size is not known: neutral in a greatest common divisor."""

WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Ops with subgraphs, which may read any value as a whole."""

_SELF_MADE = frozenset({"Constant", "ConstantOfShape"})
"""Ops that make any part of their result as well as all of it, if they read only constants."""


@dataclass(frozen=True, eq=False)
class TemplateTable:
    """The distinct rules of a graph, concatenated; `*_ptr[t]:*_ptr[t + 1]` belong to rule t.

    Attributes:
        templates: the rules.
        member_ptr, members: see `RuleTemplate.members`.
        merged_ptr, merged: see `RuleTemplate.merged`.
        stuck_ptr, stuck: see `RuleTemplate.stuck`.
        factor_ptr, factor_block: see `RuleTemplate.factor_block`.
        rank_ptr, ranks: see `RuleTemplate.ranks`.
    """

    templates: tuple[RuleTemplate, ...]
    member_ptr: NDArray[np.int32]
    members: NDArray[np.int32]
    merged_ptr: NDArray[np.int32]
    merged: NDArray[np.int32]
    stuck_ptr: NDArray[np.int32]
    stuck: NDArray[np.int32]
    factor_ptr: NDArray[np.int32]
    factor_block: NDArray[np.int32]
    rank_ptr: NDArray[np.int32]
    ranks: NDArray[np.int32]


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

    def rule_of(self, node: int) -> RuleTemplate:
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
    values: dict[ir.Value, int] = {}
    extents: list[int] = []
    dim_ptr: list[int] = [0]

    def number(value: ir.Value) -> int:
        shape = value.shape
        if shape is not None:
            extents.extend([d if type(d) is int else UNKNOWN_EXTENT for d in shape.dims])
        dim_ptr.append(len(extents))
        values[value] = index = len(values)
        return index

    for value in graph.inputs:
        number(value)
    # Walking the graph takes longer than walking a list.
    in_order = ruled if len(ruled) == len(graph) else _all_nodes(graph, ruled)
    rule_numbers: dict[int, int] = {}
    templates: list[RuleTemplate] = []
    nodes: list[ir.Node] = []
    node_rule: list[int] = []
    slot_ptr: list[int] = [0]
    slot_value: list[int] = []
    stuck: list[tuple[ir.Value, int, ir.Node, str, Block]] = []
    for node, rule in in_order:
        makes_any_part = node.op_type in _SELF_MADE and _is_self_made(node)
        if rule is None or makes_any_part or node.op_type in WITH_BODIES:
            touched = node.outputs if makes_any_part else _touched(node)
            for value in touched:
                if value not in values:
                    number(value)
                if not makes_any_part:
                    stuck.append((value, -1, node, node.op_type, Block.UNKNOWN))
            continue
        # Rules live as long as `ruled`, and hashing one by its content would take longer.
        index = rule_numbers.get(id(rule))
        if index is None:
            rule_numbers[id(rule)] = index = len(templates)
            templates.append(rule_template(rule))
        nodes.append(node)
        node_rule.append(index)
        for side, dims in ((node.inputs, rule.inputs), (node.outputs, rule.outputs)):
            for value in side:
                if value is None:
                    slot_value.append(-1)
                    continue
                known = values.get(value)
                slot_value.append(number(value) if known is None else known)
            missing = len(dims) - len(side)
            if missing > 0:
                slot_value += [-1] * missing
            elif missing < 0:
                del slot_value[missing:]
                stuck += [
                    (value, -1, node, node.op_type, Block.UNKNOWN)
                    for value in side[missing:]
                    if value is not None
                ]
        slot_ptr.append(len(slot_value))
    for value in graph.initializers.values():
        if value not in values:
            number(value)
    stuck += [(*pattern, Block.NORMALISED) for pattern in patterns]
    dims, why, by = _stuck_arrays(values, dim_ptr, stuck)
    return RuledGraph(
        values=tuple(values),
        value_index=values,
        dim_ptr=np.array(dim_ptr, dtype=np.int32),
        extents=np.array(extents, dtype=np.int64),
        nodes=tuple(nodes),
        node_rule=np.array(node_rule, dtype=np.int32),
        slot_ptr=np.array(slot_ptr, dtype=np.int32),
        slot_value=np.array(slot_value, dtype=np.int32),
        rules=template_table(templates),
        stuck_dims=dims,
        stuck_why=why,
        stuck_by=by,
    )


def _all_nodes(
    graph: ir.Graph, ruled: Sequence[tuple[ir.Node, ShardingRule]]
) -> list[tuple[ir.Node, ShardingRule | None]]:
    rules = dict(ruled)
    return [(node, rules.get(node)) for node in graph]


def _is_self_made(node: ir.Node) -> bool:
    return node.domain in ("", "ai.onnx") and all(
        value is None or value.const_value is not None for value in node.inputs
    )


def _touched(node: ir.Node) -> list[ir.Value]:
    return [*consumed_values(node), *node.outputs]


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


def template_table(templates: Sequence[RuleTemplate]) -> TemplateTable:
    """Concatenates rules."""

    def pointer(rows: list[NDArray[np.int32]]) -> NDArray[np.int32]:
        return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int32)

    def joined(rows: list[NDArray[np.int32]], width: int) -> NDArray[np.int32]:
        shape = (0, width) if width else (0,)
        return np.concatenate([np.zeros(shape, dtype=np.int32), *rows])

    members = [template.members for template in templates]
    merged = [template.merged for template in templates]
    stuck = [template.stuck for template in templates]
    blocks = [template.factor_block for template in templates]
    ranks = [template.ranks for template in templates]
    return TemplateTable(
        templates=tuple(templates),
        member_ptr=pointer(members),
        members=joined(members, 5),
        merged_ptr=pointer(merged),
        merged=joined(merged, 3),
        stuck_ptr=pointer(stuck),
        stuck=joined(stuck, 3),
        factor_ptr=pointer(blocks),
        factor_block=joined(blocks, 0),
        rank_ptr=pointer(ranks),
        ranks=joined(ranks, 0),
    )
