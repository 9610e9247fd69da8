"""Which element types have gradients."""

from __future__ import annotations

import onnx_ir as ir

FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)
"""Element types that have gradients."""
