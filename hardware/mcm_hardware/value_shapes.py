"""Shapes of values as plain integers; total functions, so that odd graphs never fail a cost."""

from __future__ import annotations

import math

import onnx_ir as ir

MAX_ELEMENTS = 2**62
"""Where element counts saturate; a file may declare tensors of any size."""


def value_dims(value: ir.Value | None) -> tuple[int, ...] | None:
    """Dimensions of `value`, a symbolic one counting as 1; None where the rank is unknown."""
    if value is None:
        return None
    shape = value.shape
    if shape is None:
        if value.const_value is None:
            return None
        shape = value.const_value.shape
    return tuple(d if isinstance(d, int) else 1 for d in shape)


def element_count(value: ir.Value | None) -> int:
    """Elements of `value`; 0 where the rank is unknown."""
    dims = value_dims(value)
    return 0 if dims is None else min(max(math.prod(dims), 0), MAX_ELEMENTS)
