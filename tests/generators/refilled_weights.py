"""Giving models without meaningful weights seeded random ones.

Models that are shipped light fill every weight with one constant. Most then ignore their input,
and any wrong split of them passes a comparison of outputs.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from mcm_models.graph_builder import Uniform, after_relu, around, random_tensor

_SCALE, _VARIANCE = 1, 4
"""Inputs of BatchNormalization that centre on one."""

_RESIDUAL_SCALE = 0.25
"""Scale of a branch that is added to another: sums of many branches would grow without end."""


def refill_weights(model: ir.Model, seed: int = 0) -> int:
    """Replaces float weights made by `ConstantOfShape` by random initializers, in place.

    Args:
        model: its main graph is changed; the nodes that made the weights go.
        seed: same seed, same weights.

    Returns:
        The number of weights that were replaced.
    """
    graph = model.graph
    made = [node for node in graph if node.op_type == "ConstantOfShape" and _is_weight(node)]
    for node in made:
        old = node.outputs[0]
        sizes = node.inputs[0]
        assert sizes is not None
        assert sizes.const_value is not None
        shape = [int(size) for size in sizes.const_value.numpy()]
        name = old.name or ""
        tensor = random_tensor(name, shape, _distribution(old, shape), seed)
        new = ir.Value(
            name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape),
            const_value=tensor,
        )  # fmt: skip
        old.replace_all_uses_with(new)
        graph.remove(node, safe=True)
        graph.register_initializer(new)
    return len(made)


def _is_weight(node: ir.Node) -> bool:
    fill = node.attributes.get("value")
    float32 = fill is None or fill.as_tensor().dtype is ir.DataType.FLOAT
    sizes = node.inputs[0]
    known = sizes is not None and sizes.const_value is not None
    return float32 and known and not node.outputs[0].is_graph_output()


def _distribution(weight: ir.Value, shape: list[int]) -> Uniform:
    for reader, position in _readers_behind_views(weight):
        normalizes = reader.op_type == "BatchNormalization"
        if reader.op_type == "Mul" or (normalizes and position == _VARIANCE):
            return around(1.0, 0.25)
        if normalizes and position == _SCALE:
            added = any(use.node.op_type in ("Add", "Sum") for use in reader.outputs[0].uses())
            return around(_RESIDUAL_SCALE if added else 1.0, 0.2)
    if len(shape) < 2:
        return around(0.0, 0.1)
    return after_relu(math.prod(shape[1:]))


def _readers_behind_views(value: ir.Value) -> list[tuple[ir.Node, int]]:
    readers: list[tuple[ir.Node, int]] = []
    for use in value.uses():
        if use.node.op_type in ("Reshape", "Unsqueeze"):
            readers += _readers_behind_views(use.node.outputs[0])
        else:
            readers.append((use.node, use.idx))
    return readers
