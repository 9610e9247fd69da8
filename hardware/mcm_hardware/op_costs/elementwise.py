"""Work of elementwise ops, quantization among them.

Lane operations per element follow from how the function is approximated (`lane_ops.py`, our
derivation); compositions such as GELU follow their definition in the ONNX standard.

Quantised elementwise ops are computed on dequantised values and quantised again, as onnxruntime
does (our derivation).
"""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import (
    ARC,
    DIVIDE,
    ERF,
    EXP,
    LOG,
    POWER,
    REQUANTIZE,
    SIGMOID,
    SINE,
    SQUARE_ROOT,
    TANH,
    Formula,
    Work,
)

_LANE_OPS: dict[str, int] = {
    "Abs": 1, "Acos": ARC, "Acosh": LOG + SQUARE_ROOT + 2, "Add": 1, "And": 1, "Asin": ARC,
    "Asinh": LOG + SQUARE_ROOT + 2, "Atan": ARC, "Atanh": LOG + DIVIDE + 3, "BitShift": 1,
    "BitwiseAnd": 1, "BitwiseNot": 1, "BitwiseOr": 1, "BitwiseXor": 1, "Cast": 1, "CastLike": 1,
    "Ceil": 1, "Celu": EXP + 4, "Clip": 2, "Cos": SINE, "Cosh": EXP + DIVIDE + 2, "Div": DIVIDE,
    "Elu": EXP + 3, "Equal": 1, "Erf": ERF, "Exp": EXP, "Floor": 1, "Gelu": ERF + 4, "Greater": 1,
    "GreaterOrEqual": 1, "HardSigmoid": 3, "HardSwish": 4, "IsInf": 2, "IsNaN": 1, "LeakyRelu": 2,
    "Less": 1, "LessOrEqual": 1, "Log": LOG, "Mish": EXP + LOG + TANH + 2, "Mod": DIVIDE + 3,
    "Mul": 1, "Neg": 1, "Not": 1, "Or": 1, "PRelu": 2, "Reciprocal": DIVIDE, "Relu": 1, "Round": 1,
    "Selu": EXP + 4, "Shrink": 4, "Sigmoid": SIGMOID, "Sign": 2, "Sin": SINE,
    "Sinh": EXP + DIVIDE + 2, "Softplus": EXP + LOG + 1, "Softsign": DIVIDE + 2,
    "Sqrt": SQUARE_ROOT, "Sub": 1, "SwiGLU": SIGMOID + 2, "Swish": SIGMOID + 2,
    "Tan": 2 * SINE + DIVIDE, "Tanh": TANH, "ThresholdedRelu": 2, "Where": 1, "Xor": 1,
}  # fmt: skip

_MICROSOFT_LANE_OPS: dict[str, int] = {
    "BiasAdd": 2, "BiasDropout": 2, "BiasGelu": ERF + 5, "BiasSplitGelu": ERF + 6,
    "ComplexMul": 4, "ComplexMulConj": 4, "FastGelu": TANH + 6, "GatedAdd": 2, "Gelu": ERF + 4,
    "IsAllFinite": 2, "MulInteger": 4, "QuickGelu": SIGMOID + 2, "ScaledSiLU": SIGMOID + 2,
    "BitmaskBiasDropout": 3, "BitmaskDropout": 1, "EngramGate": SIGMOID + 2,
    "LinearAttentionGate": SIGMOID + EXP + 4, "MurmurHash3": 16,
}  # fmt: skip

_BY_OPERANDS: dict[str, int] = {"Max": 0, "Min": 0, "Sum": 0, "Mean": 1}
"""Ops of any number of operands, with lane ops of an element beside those that join them."""


def _per_element(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size())


def _per_operand(extra: int, node: NodeShapes) -> Work:
    operands = sum(value is not None for value in node.node.inputs)
    return Work(lane_ops=(max(operands - 1, 1) + extra) * node.out_size())


_CHEAP_POWERS: dict[float, int] = {0.5: SQUARE_ROOT, -0.5: SQUARE_ROOT, 1.0: 1, 2.0: 1, 3.0: 2}


def _power(node: NodeShapes) -> Work:
    # Exported layer norms square with Pow; a compiler emits a multiplication for that.
    exponent = node.scalar(1)
    lane_ops = POWER if exponent is None else _CHEAP_POWERS.get(exponent, POWER)
    return Work(lane_ops=lane_ops * node.out_size())


BY_SHAPES_ALONE: frozenset[tuple[str, str]] = frozenset(
    {("", op) for op in (*_LANE_OPS, *_BY_OPERANDS)}
    | {("com.microsoft", op) for op in _MICROSOFT_LANE_OPS}
)
"""Ops whose work follows from the shapes and types of their operands and results, whatever their
attributes are."""


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
    **{op: partial(_per_element, lane_ops) for op, lane_ops in _LANE_OPS.items()},
    **{op: partial(_per_operand, extra) for op, extra in _BY_OPERANDS.items()},
    "Pow": _power,
    "DequantizeLinear": partial(_per_input, _DEQUANTIZE),
    # Minimum and maximum come first.
    "DynamicQuantizeLinear": partial(_per_input, 2 + REQUANTIZE),
    "QuantizeLinear": partial(_per_input, REQUANTIZE),
}
"""Elementwise ops of the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {
    **{op: partial(_per_element, lane_ops) for op, lane_ops in _MICROSOFT_LANE_OPS.items()},
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
"""Elementwise ops of `com.microsoft`."""
