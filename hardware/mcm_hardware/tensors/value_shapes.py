"""Shapes of values as plain integers; total functions, so that odd graphs never fail a cost."""

from __future__ import annotations

import math

import onnx_ir as ir

from mcm_compiler.graph.estimated_dims import dim_size
from mcm_compiler.graph.static_shapes import static_dims

MAX_ELEMENTS = 2**62
"""Where element counts saturate; a file may declare tensors of any size."""


def value_dims(value: ir.Value | None) -> tuple[int, ...] | None:
    """Dimensions of `value`, open ones as `dim_size` counts them; None for an unknown rank."""
    if value is None:
        return None
    shape = value.shape
    if shape is None:
        if value.const_value is None:
            return None
        return tuple(value.const_value.shape.numpy())
    known = static_dims(shape)
    return tuple(map(dim_size, shape.dims)) if known is None else known


def element_count(value: ir.Value | None) -> int:
    """Elements of `value`; 0 where the rank is unknown."""
    dims = value_dims(value)
    return 0 if dims is None else min(max(math.prod(dims), 0), MAX_ELEMENTS)
