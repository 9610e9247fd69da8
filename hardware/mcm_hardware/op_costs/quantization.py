"""Conversions between real and quantised tensors, and quantised elementwise ops.

Quantised elementwise ops are computed on dequantised values and quantised again, as onnxruntime
does (our derivation).
"""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import REQUANTIZE, Formula, Work

_DEQUANTIZE = 2
"""Per element: subtract the zero point, scale."""


def _per_input(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.size(0))


def _per_result(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size())


def _gather_quantized(node: NodeShapes) -> Work:
    """Packed weights share bytes, which `out_size` elements of the packed type bound from above."""
    return Work(lane_ops=_DEQUANTIZE * node.out_size(), reads=((0, node.out_size()),))


FORMULAS: dict[str, Formula] = {
    "DequantizeLinear": partial(_per_input, _DEQUANTIZE),
    # Minimum and maximum come first.
    "DynamicQuantizeLinear": partial(_per_input, 2 + REQUANTIZE),
    "QuantizeLinear": partial(_per_input, REQUANTIZE),
}
"""Quantisation in the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {
    "DequantizeBFP": partial(_per_result, _DEQUANTIZE),
    "DequantizeLinear": partial(_per_input, _DEQUANTIZE),
    "DequantizeWithOrder": partial(_per_input, _DEQUANTIZE),
    "GatherBlockQuantized": _gather_quantized,
    "QLinearAdd": partial(_per_result, 2 * _DEQUANTIZE + 1 + REQUANTIZE),
    "QLinearLeakyRelu": partial(_per_result, _DEQUANTIZE + 2 + REQUANTIZE),
    "QLinearMul": partial(_per_result, 2 * _DEQUANTIZE + 1 + REQUANTIZE),
    # A table of 256 entries.
    "QLinearSigmoid": partial(_per_result, 1),
    "QLinearWhere": partial(_per_result, 2 * _DEQUANTIZE + 1 + REQUANTIZE),
    "QOrderedGelu": partial(_per_result, 1),
    "QuantizeBFP": partial(_per_input, REQUANTIZE),
    "QuantizeLinear": partial(_per_input, REQUANTIZE),
    "QuantizeWithOrder": partial(_per_input, REQUANTIZE),
}
"""Quantisation in `com.microsoft`."""
