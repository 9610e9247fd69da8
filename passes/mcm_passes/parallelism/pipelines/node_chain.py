"""A model as a chain: its ops in graph order, and what each costs and leaves behind.

Cutting the chain anywhere gives a valid pipeline, since graph order is topological: what crosses a
cut is sent from stage to stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.graph.constants import constant_values
from mcm_models.pipelines.problem import Floats

CHEAP_TIME, CHEAP_WEIGHTS = 1e-2, 1e-4
"""A value is computed again on every stage, and not sent, if all that it is computed from takes at
most these shares of the model's time and of its weights: masks and position biases."""

CHEAP_NODES = 64
"""Ops that such a value is computed by, at most."""

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
_SHAPES_ONLY = frozenset({"Shape", "Size"})

_NEEDS_INPUTS = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Mul", "Div", "Pow", "Log", "Erf", "Gelu"}
    | {"LayerNormalization", "RMSNormalization", "BatchNormalization", "MaxPool", "Attention"}
)
"""Ops whose gradient is computed from what they read."""

_NEEDS_OUTPUTS = frozenset(
    {"Softmax", "LogSoftmax", "Sigmoid", "Tanh", "Relu", "Exp", "Sqrt", "Reciprocal", "MaxPool"}
)
"""Ops whose gradient is computed from what they write."""


@dataclass(frozen=True, eq=False)
class NodeChain:
    """A model's ops in order.

    Attributes:
        names: `[N]`, names of the ops.
        forward_s: `[N]`, seconds on one device.
        cut_bytes: `[N + 1]`, activations that cross the cut before each op.
        weight_bytes: `[N]`, weights that each op reads. One that several read counts at each: it
            may have to be on several stages.
        kept_bytes: `[N]`, results that backward passes need.
        articulation unit: `[N + 1]`, whether exactly one activation crosses, but for those that
        live long.
        readers: `[N + 1]`, how many ops read the activation that crosses an articulation unit.
    """

    names: tuple[str, ...]
    forward_s: Floats
    cut_bytes: Floats
    weight_bytes: Floats
    kept_bytes: Floats
    articulation: np.ndarray
    readers: np.ndarray


def node_chain(model: ir.Model, cost_model: CostModel) -> NodeChain:
    """The chain of a model, with the costs that a device has.

    Args:
        model: static shapes, as imported; its batch is the micro-batch.
        cost_model: of one device.
    """
    constant = constant_values(model.graph)
    nodes = chain_nodes(model, constant)
    place = {node: index for index, node in enumerate(nodes)}
    forward = np.array([cost_model.node_cost(node).seconds for node in nodes])
    weights = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        read = {v for v in node.inputs if v is not None and v in constant and _is_weight(v)}
        weights[index] = sum(cost_model.storage_bytes(v) for v in read)
    sent = _sent_values(nodes, constant, forward, weights)
    cut_bytes, count, readers = _crossings(nodes, place, sent, cost_model)
    return NodeChain(
        names=tuple(node.name or "" for node in nodes),
        forward_s=forward,
        cut_bytes=cut_bytes,
        weight_bytes=weights,
        kept_bytes=_kept_bytes(nodes, constant, cost_model),
        articulation=count == 1,
        readers=readers,
    )


def chain_nodes(model: ir.Model, constant: Set[ir.Value] | None = None) -> list[ir.Node]:
    """The ops of the chain: all in graph order, but for those that compute from weights alone.

    Such ops run once, before any micro-batch.
    """
    known = constant_values(model.graph) if constant is None else constant
    return [node for node in model.graph if not all(v in known for v in node.outputs)]


def _is_weight(value: ir.Value) -> bool:
    """Whether a constant is learned: stored, floating-point, and more than a single number.

    Where a model has shapes only, `ConstantOfShape` stands for what is stored.
    """
    producer = value.producer()
    return (
        (producer is None or producer.op_type == "ConstantOfShape")
        and value.dtype is not None
        and value.dtype.is_floating_point()
        and value.shape is not None
        and value.shape.is_static()
        and math.prod(value.shape.numpy()) > 1
    )


def _sent_values(
    nodes: Sequence[ir.Node],
    constant: Set[ir.Value],
    forward: Floats,
    weights: Floats,
) -> dict[ir.Value, None]:
    """Results that are sent over cuts, in order.

    Not sent are constants, what depends on shapes alone, and what is cheap to compute again from
    the inputs of the model, which every stage can be fed.
    """
    most_s, most_bytes = CHEAP_TIME * forward.sum(), CHEAP_WEIGHTS * weights.sum()
    cones: dict[ir.Value, frozenset[int]] = {}
    sent: dict[ir.Value, None] = {}
    for index, node in enumerate(nodes):
        inputs = [v for v in node.inputs if v is not None and v not in constant]
        cone: frozenset[int] | None = frozenset({index})
        if node.op_type not in _SHAPES_ONLY:
            for value in inputs:
                if value in sent:
                    cone = None
                    break
                cone = cone | cones.get(value, frozenset())
        if cone is not None:
            members = list(cone)
            if (
                len(members) > CHEAP_NODES
                or forward[members].sum() > most_s
                or weights[members].sum() > most_bytes
            ):
                cone = None
        for value in node.outputs:
            if value in constant:
                continue
            if cone is None:
                sent[value] = None
            else:
                cones[value] = cone
    return sent


def _crossings(
    nodes: Sequence[ir.Node],
    place: Mapping[ir.Node, int],
    sent: Mapping[ir.Value, None],
    cost_model: CostModel,
) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Bytes at each cut, values that do not live long, and readers of the youngest of those."""
    size = len(nodes)
    steps, short = np.zeros(size + 2), np.zeros(size + 2, np.int64)
    readers = np.zeros(size + 1, np.int64)
    for value in sent:
        uses = [place[use.node] for use in value.uses() if use.node in place]
        producer = value.producer()
        if not uses or producer is None:
            continue
        start, end = place[producer] + 1, max(uses)
        steps[start] += cost_model.storage_bytes(value)
        steps[end + 1] -= cost_model.storage_bytes(value)
        if end - start <= size // 4 or len(uses) < 4:
            short[start] += 1
            short[end + 1] -= 1
            readers[start : end + 1] = len(uses)
    cut_bytes = np.cumsum(steps)[: size + 1]
    return np.maximum(cut_bytes, 0.0), np.cumsum(short)[: size + 1], readers


def _kept_bytes(nodes: Sequence[ir.Node], constant: Set[ir.Value], cost_model: CostModel) -> Floats:
    """Bytes of the results of each op that gradients are computed from; each counts once."""
    behind: dict[ir.Value, ir.Value] = {}
    needed: set[ir.Value] = set()
    for node in nodes:
        if node.op_type in _VIEWS and node.inputs[0] is not None:
            source = node.inputs[0]
            behind[node.outputs[0]] = behind.get(source, source)
            continue
        if node.op_type in _NEEDS_INPUTS:
            needed.update(behind.get(v, v) for v in node.inputs if v is not None)
        if node.op_type in _NEEDS_OUTPUTS:
            needed.update(node.outputs)
    kept = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        for value in node.outputs:
            if value in needed and value not in constant:
                kept[index] += cost_model.storage_bytes(value)
    return kept
