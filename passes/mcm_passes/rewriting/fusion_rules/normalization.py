"""What LayerNorm and RMSNorm in parts have in common: division by a root mean square."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_passes.rewriting.fusion_rules.fusion_graph import FusionGraph

GROWTH_OPS = frozenset({"Add", "Cast", "Div", "Mul", "Reciprocal", "Sub"})
"""Ops from the root to the scaled and shifted result."""


@dataclass(frozen=True)
class RootMeanSquare:
    """`sqrt(mean(v * v) + epsilon)`.

    Attributes:
        value: v.
        members: the ops from v to the root.
    """

    value: ir.Value
    members: frozenset[int]


def root_mean_square(graph: FusionGraph, root: int) -> RootMeanSquare | None:
    """Recognises a root mean square by its root, a `Sqrt` or a `Pow` with constant exponent."""
    members = [root]

    def step(value: ir.Value, *ops: str) -> ir.Value | None:
        """The one operand of the op that makes `value`."""
        position = graph.producer_of(value, *ops)
        if position is None:
            return None
        operands = graph.operands(position)
        if len(operands) != 1:
            return None
        members.append(position)
        return operands[0]

    operands = graph.operands(root)
    if len(operands) != 1:
        return None
    value = operands[0]
    value = step(value, "Add", "Max") or value
    mean = step(value, "ReduceMean")
    if mean is None:
        return None
    square = step(mean, "Mul", "Pow")
    if square is None or not _is_square(graph.nodes[members[-1]]):
        return None
    return RootMeanSquare(square, frozenset(members))


def centered(graph: FusionGraph, value: ir.Value) -> tuple[ir.Value, frozenset[int]] | None:
    """Recognises `x - mean(x)`: x and the two ops."""
    difference = graph.producer_of(value, "Sub")
    if difference is None:
        return None
    minuend, subtrahend = graph.nodes[difference].inputs
    if minuend is None or subtrahend is None:
        return None
    mean = graph.producer_of(subtrahend, "ReduceMean")
    if mean is None or graph.operands(mean) != [minuend]:
        return None
    return minuend, frozenset({difference, mean})


def _is_square(node: ir.Node) -> bool:
    if node.op_type == "Mul":
        return node.inputs[0] is node.inputs[1]
    exponent = node.inputs[1].const_value if node.inputs[1] is not None else None
    return exponent is not None and exponent.size == 1 and exponent.numpy().item() == 2
