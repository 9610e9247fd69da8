"""Which tensors of a model are trained."""

from __future__ import annotations

import math

import onnx_ir as ir

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_passes.parallelism.rules.ruled_graph import WITH_BODIES

_STATISTICS = {"BatchNormalization": (3, 5)}
"""Operands, from and up to, that are measured in training and not learnt."""

_FLOATS = frozenset(dtype for dtype in ir.DataType if dtype.is_floating_point())


def trainable_variables(model: ir.Model) -> list[ir.Value]:
    """Weights in the order in which ops first read them.

    ONNX doesn't say what is trained. Taken are float initializers, and the `ConstantOfShape` nodes
    that stand for them in models without weights, with more than one element, if something that
    depends on the model's inputs comes of them. Running statistics of batch normalisations are
    left out; a table of constants, such as a mask that an exporter stored, looks just like a
    weight and counts as one.
    """
    graph = model.graph
    is_shape_only = model.metadata_props.get(WEIGHTS_KEY) == SHAPE_ONLY
    weights: set[ir.Value | None] = {v for v in graph.initializers.values() if _is_weight(v)}
    statistics: set[ir.Value | None] = {None}
    # In graph order, so that what an op reads has been looked at.
    computed: set[ir.Value | None] = {v for v in graph.inputs if not v.is_initializer()}
    outputs = set(graph.outputs)
    # Whether what is read is read by an op that is not constant: then nothing has to be followed.
    found: dict[ir.Value, bool] = {}
    for node in graph:
        inputs, op_type = node.inputs, node.op_type
        is_computed = not computed.isdisjoint(inputs) or op_type in WITH_BODIES
        if is_computed:
            computed.update(node.outputs)
        elif is_shape_only and op_type == "ConstantOfShape" and _stands_for_weight(node):
            weights.add(node.outputs[0])
        for value in inputs:
            if value in weights and value is not None and not found.get(value, False):
                found[value] = is_computed
        if op_type in _STATISTICS:
            first, end = _STATISTICS[op_type]
            statistics.update(inputs[first:end])
    return [
        value
        for value, reaches in found.items()
        if value not in statistics and (reaches or _reaches(value, computed, outputs))
    ]


def float_bytes(value: ir.Value) -> int:
    """Bytes of a tensor of known shape; 0 where the shape or type is unknown, and of texts."""
    if value.shape is None or value.dtype is None or not value.shape.is_static():
        return 0
    if value.dtype == ir.DataType.STRING:
        return 0
    return math.ceil(math.prod(value.shape.numpy()) * value.dtype.bitwidth / 8)


def _is_weight(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.dtype in _FLOATS and tensor.size > 1


def _stands_for_weight(node: ir.Node) -> bool:
    extents, result = node.inputs[0], node.outputs[0]
    return (
        extents is not None
        and extents.is_initializer()
        and result.dtype in _FLOATS
        and result.shape is not None
        and result.shape.is_static()
        and math.prod(result.shape.numpy()) > 1
    )


def _reaches(value: ir.Value, computed: set[ir.Value | None], outputs: set[ir.Value]) -> bool:
    """Return whether an op that is not constant reads `value`, or what constant ops make of it."""
    pending, seen = [value], {value}
    while pending:
        reached = pending.pop()
        if reached in outputs:
            return True
        for node in reached.consumers():
            for result in node.outputs:
                if result in computed:
                    return True
                if result not in seen:
                    seen.add(result)
                    pending.append(result)
    return False
