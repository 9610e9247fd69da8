"""LayerNorm, RMSNorm and softmax in their parts."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_passes.rewriting.fusion_rules.grouping import FusionGraph, Grouping
from mcm_passes.rewriting.fusion_rules.region import Growth, grow
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

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


def _layer_norm(grouping: Grouping, anchor: int) -> set[int] | None:
    """LayerNorm in its parts (Ba et al. 2016, *Layer Normalization*).

    `(x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + shift`, as PyTorch exports it up to
    opset 16, and `x * (scale / root) + (shift - mean * scale / root)`, as TensorFlow does.
    """
    graph = grouping.graph
    root = root_mean_square(graph, anchor)
    center = centered(graph, root.value) if root is not None else None
    if root is None or center is None:
        return None
    source, ops = center
    growth = Growth(
        source,
        allowed=GROWTH_OPS,
        joins=frozenset({"Div", "Mul"}),
        joined=frozenset({source, root.value}),
    )
    return grow(graph, root.members | ops, growth)


LAYER_NORM = FusionRule("layer_norm", frozenset({"Sqrt", "Pow"}), _layer_norm)


def _rms_norm(grouping: Grouping, anchor: int) -> set[int] | None:
    """RMSNorm (Zhang and Sennrich 2019): `x / sqrt(mean(x^2) + epsilon) * scale`."""
    graph = grouping.graph
    root = root_mean_square(graph, anchor)
    if root is None:
        return None
    growth = Growth(
        root.value,
        allowed=GROWTH_OPS,
        joins=frozenset({"Div", "Mul"}),
        joined=frozenset({root.value}),
    )
    return grow(graph, root.members, growth)


RMS_NORM = FusionRule("rms_norm", frozenset({"Sqrt", "Pow"}), _rms_norm)


def _softmax(grouping: Grouping, anchor: int) -> set[int] | None:
    """Softmax and LogSoftmax: `exp(x - max(x)) / sum(exp(x - max(x)))`."""
    graph = grouping.graph
    operands = graph.operands(anchor)
    exponential = graph.producer_of(operands[0], "Exp") if len(operands) == 1 else None
    if exponential is None:
        return None
    seed = {anchor, exponential}
    (source,) = graph.operands(exponential)
    joined = {graph.output(exponential), source}
    difference = graph.producer_of(source, "Sub")
    if difference is not None:
        minuend, subtrahend = graph.nodes[difference].inputs
        maximum = graph.producer_of(subtrahend, "ReduceMax") if subtrahend is not None else None
        if minuend is not None and maximum is not None and graph.operands(maximum) == [minuend]:
            seed |= {difference, maximum}
            source = minuend
    growth = Growth(
        source,
        allowed=frozenset({"Div", "Log", "Mul", "Reciprocal", "Sub"}),
        joins=frozenset({"Div", "Mul", "Sub"}),
        joined=frozenset(joined),
    )
    return grow(graph, seed, growth)


SOFTMAX = FusionRule("softmax", frozenset({"ReduceSum"}), _softmax)
