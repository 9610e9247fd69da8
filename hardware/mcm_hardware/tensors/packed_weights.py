"""Weights of a few bits: what they are stored as, and what their values are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import onnx_ir as ir

from mcm_compiler.graph.constants import is_deterministic

WeightUnpacking = Literal["load", "lanes", "ahead"]
"""Where weights of a few bits become numbers: on their way from SRAM to the engines, by the vector
unit in each step, or before the first inference, so that SRAM holds the numbers."""

UNPACK_OPS = 2
"""Lane operations per weight: subtract the zero point, scale."""

_WEIGHTS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "MatMulNBits": ((1,), (2, 3, 4)),
    "GatherBlockQuantized": ((0,), (2, 3)),
    "QMoE": ((2, 5, 8), (3, 6, 9, 11, 12, 13)),
}
"""Ops of com.microsoft that unpack weights themselves: inputs with weights, and those with scales,
zero points and orders."""

_SAME_ELEMENTS = frozenset(
    {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Ops that keep all elements of their first input."""

_NARROW = frozenset(t for t in ir.DataType if t.is_integer() and t.bitwidth <= 8)
"""Types of weights that a Cast makes numbers of."""

_STEPS = 8
"""Ops between a product and the DequantizeLinear of its weight that are looked through."""

CONSTANT_SEARCH = 8
"""Producers visited to find out whether an operand is constant; weights that are cast, transposed
or dequantised on the way have one to three."""


def packed_operands(value: ir.Value) -> tuple[ir.Value, ...]:
    """Elements, scales and zero points that a constant is dequantised from; () for other values."""
    for _ in range(_STEPS):
        node = value.producer()
        if node is None or not node.inputs or (source := node.inputs[0]) is None:
            return ()
        if node.op_type == "DequantizeLinear":
            found = tuple(v for v in node.inputs if v is not None)
            return found if all(map(is_constant, found)) else ()
        if node.op_type not in _SAME_ELEMENTS or node.domain not in ("", "ai.onnx"):
            return ()
        if node.op_type == "Cast" and source.dtype in _NARROW:
            return (source,) if is_constant(source) else ()
        value = source
    return ()


def unpacked_ahead(value: ir.Value) -> tuple[ir.DataType, int] | None:
    """The type and, per element, the bits of a weight that an op unpacks itself.

    Returns:
        0 bits for scales and the like, which nothing reads once weights are unpacked. None for
        other values.
    """
    for use in value.uses():
        node = use.node
        weights, rest = _WEIGHTS.get(node.op_type, ((), ()))
        if use.idx in (*weights, *rest) and node.domain == "com.microsoft":
            bits = node.attributes.get_int("expert_weight_bits", 4)
            bits = node.attributes.get_int("bits", bits)
            dtype = node.outputs[0].dtype or ir.DataType.FLOAT
            return dtype, bits if use.idx in weights else 0
    return None


def is_constant(value: ir.Value) -> bool:
    """True for a weight: an initializer, or computed from initializers alone.

    The search gives up after `CONSTANT_SEARCH` producers and answers False; the whole-graph
    answer is `mcm_compiler.graph.constants.constant_values`.
    """
    pending: list[ir.Value | None] = [value]
    producers: list[ir.Node] = []
    while pending:
        current = pending.pop()
        if current is None or current.const_value is not None:
            continue
        producer = current.producer()
        if producer is not None:
            if len(producers) == CONSTANT_SEARCH:
                return False
            producers.append(producer)
            # First operands first: weights are mostly second ones.
            pending += producer.inputs[::-1]
        elif not current.is_initializer():
            return False
    # Asked last, as it takes longest: what most values lead to is an input of the graph.
    return all(map(is_deterministic, producers))
