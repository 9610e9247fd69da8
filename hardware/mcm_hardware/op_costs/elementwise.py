"""Work of elementwise ops, quantization among them.

Lane operations per element follow from how the function is approximated (`work.py`, our
derivation); compositions such as GELU follow their definition in the ONNX standard.

Quantised elementwise ops are computed on dequantised values and quantised again, as onnxruntime
does (our derivation).
"""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from mcm_hardware.op_costs import work
from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Work, joined, ops, per_input, per_result
from mcm_hardware.tensors.storage_widths import UNPACK_OPS

_LANE_OPS: dict[str, int] = {
    "Abs": 1, "Acos": work.ARC, "Acosh": work.LOG + work.SQUARE_ROOT + 2, "Add": 1, "And": 1,
    "Asin": work.ARC, "Asinh": work.LOG + work.SQUARE_ROOT + 2, "Atan": work.ARC,
    "Atanh": work.LOG + work.DIVIDE + 3, "BitShift": 1, "BitwiseAnd": 1, "BitwiseNot": 1,
    "BitwiseOr": 1, "BitwiseXor": 1, "Cast": 1, "CastLike": 1, "Ceil": 1, "Celu": work.EXP + 4,
    "Clip": 2, "Cos": work.SINE, "Cosh": work.EXP + work.DIVIDE + 2, "Div": work.DIVIDE,
    "Elu": work.EXP + 3, "Equal": 1, "Erf": work.ERF, "Exp": work.EXP, "Floor": 1,
    "Gelu": work.ERF + 4, "Greater": 1, "GreaterOrEqual": 1, "HardSigmoid": 3, "HardSwish": 4,
    "IsInf": 2, "IsNaN": 1, "LeakyRelu": 2, "Less": 1, "LessOrEqual": 1, "Log": work.LOG,
    "Mish": work.EXP + work.LOG + work.TANH + 2, "Mod": work.DIVIDE + 3, "Mul": 1, "Neg": 1,
    "Not": 1, "Or": 1, "PRelu": 2, "Reciprocal": work.DIVIDE, "Relu": 1, "Round": 1,
    "Selu": work.EXP + 4, "Shrink": 4, "Sigmoid": work.SIGMOID, "Sign": 2, "Sin": work.SINE,
    "Sinh": work.EXP + work.DIVIDE + 2, "Softplus": work.EXP + work.LOG + 1,
    "Softsign": work.DIVIDE + 2, "Sqrt": work.SQUARE_ROOT, "Sub": 1, "SwiGLU": work.SIGMOID + 2,
    "Swish": work.SIGMOID + 2, "Tan": 2 * work.SINE + work.DIVIDE, "Tanh": work.TANH,
    "ThresholdedRelu": 2, "Where": 1, "Xor": 1,
}  # fmt: skip
"""Lane operations per element of the result, by op type."""

_MICROSOFT_LANE_OPS: dict[str, int] = {
    "BiasAdd": 2, "BiasDropout": 2, "BiasGelu": work.ERF + 5, "BiasSplitGelu": work.ERF + 6,
    "ComplexMul": 4, "ComplexMulConj": 4, "FastGelu": work.TANH + 6, "GatedAdd": 2,
    "Gelu": work.ERF + 4, "IsAllFinite": 2, "MulInteger": 4, "QuickGelu": work.SIGMOID + 2,
    "ScaledSiLU": work.SIGMOID + 2, "BitmaskBiasDropout": 3, "BitmaskDropout": 1,
    "EngramGate": work.SIGMOID + 2, "LinearAttentionGate": work.SIGMOID + work.EXP + 4,
    "MurmurHash3": 16,
}  # fmt: skip

_BY_OPERANDS: dict[str, int] = {"Max": 0, "Min": 0, "Sum": 0, "Mean": 1}
"""Ops of any number of operands, with lane ops of an element next to those that join them."""


def _per_operand(extra: int, node: NodeShapes) -> Work:
    operands = sum(value is not None for value in node.node.inputs)
    return Work(lane_ops=(max(operands - 1, 1) + extra) * node.out_size())


_CHEAP_POWERS: dict[float, int] = {
    0.5: work.SQUARE_ROOT,
    -0.5: work.SQUARE_ROOT,
    1.0: 1,
    2.0: 1,
    3.0: 2,
}


def _power(node: NodeShapes) -> Work:
    # Exported layer norms square with Pow; a compiler emits a multiplication for that.
    exponent = node.scalar(1)
    lane_ops = work.POWER if exponent is None else _CHEAP_POWERS.get(exponent, work.POWER)
    return Work(lane_ops=lane_ops * node.out_size())


BY_SHAPES_ALONE: frozenset[tuple[str, str]] = frozenset(
    {("", op) for op in (*_LANE_OPS, *_BY_OPERANDS)}
    | {("com.microsoft", op) for op in _MICROSOFT_LANE_OPS}
)
"""Ops whose work follows from the shapes and types of their operands and results, whatever their
attributes are."""


def _gather_quantized(node: NodeShapes) -> Work:
    """Rows of a table with their scales and zero points; bytes hold several elements each."""
    made = node.out_size()

    def share(index: int) -> int:
        elements = node.size(0) * _in_a_byte(node)
        return -(-node.size(index) * made // max(elements, 1))

    reads = tuple((index, share(index)) for index in (0, 2, 3) if node.has(index))
    return Work(unpack_ops=UNPACK_OPS * made, reads=reads)


def _in_a_byte(node: NodeShapes) -> int:
    table = node.input(0)
    if table is None or table.dtype is not ir.DataType.UINT8:
        return 1
    return 8 // max(node.integer("bits", 4), 1)


FORMULAS = joined(
    *(ops(per_result(lane_ops), op) for op, lane_ops in _LANE_OPS.items()),
    *(ops(per_result(lane_ops), "", op) for op, lane_ops in _MICROSOFT_LANE_OPS.items()),
    *(ops(partial(_per_operand, extra), op) for op, extra in _BY_OPERANDS.items()),
    ops(_power, "Pow"),
    ops(per_input(UNPACK_OPS), "DequantizeLinear", "DequantizeLinear DequantizeWithOrder"),
    ops(per_result(UNPACK_OPS), "", "DequantizeBFP"),
    ops(
        per_input(work.REQUANTIZE), "QuantizeLinear", "QuantizeBFP QuantizeLinear QuantizeWithOrder"
    ),
    # Minimum and maximum come first.
    ops(per_input(2 + work.REQUANTIZE), "DynamicQuantizeLinear"),
    ops(_gather_quantized, "", "GatherBlockQuantized"),
    ops(per_result(2 * UNPACK_OPS + 1 + work.REQUANTIZE), "", "QLinearAdd QLinearMul QLinearWhere"),
    ops(per_result(UNPACK_OPS + 2 + work.REQUANTIZE), "", "QLinearLeakyRelu"),
    # A table of 256 entries.
    ops(per_result(1), "", "QLinearSigmoid QOrderedGelu"),
)
"""Elementwise ops."""
