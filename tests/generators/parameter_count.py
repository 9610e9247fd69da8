"""Counting parameters, the number that papers name a model by."""

from __future__ import annotations

import math

import onnx_ir as ir


def parameter_count(model: ir.Model) -> int:
    """Float elements among the initializers, from their shapes alone; a tied weight counts once."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(
        math.prod(tensor.shape.numpy())
        for tensor in tensors
        if tensor is not None and tensor.dtype.is_floating_point()
    )
