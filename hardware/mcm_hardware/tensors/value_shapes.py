"""Shapes of values as plain integers; total functions, so that odd graphs never fail a cost."""

from __future__ import annotations

import math

import onnx_ir as ir

from mcm_compiler.graph.estimated_dims import dim_size

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
    dims = shape.dims
    # Almost always: asked of every operand of every op, several times.
    if all(type(dim) is int for dim in dims):
        return dims  # pyright: ignore[reportReturnType]
    return tuple(map(dim_size, dims))


def element_count(value: ir.Value | None) -> int:
    """Elements of `value`; 0 where the rank is unknown."""
    dims = value_dims(value)
    return 0 if dims is None else min(max(math.prod(dims), 0), MAX_ELEMENTS)
