"""How many bytes a tensor takes in a chip's SRAM and on a link."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from mcm_compiler.graph.constants import is_deterministic
from mcm_compiler.graph.estimated_dims import dim_size
from mcm_compiler.graph.static_shapes import static_dims

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


STRING_BITS = 256
"""Estimate for one string element, whose length is not known before it is there: 32 bytes."""


def onnx_bits(dtype: ir.DataType) -> int:
    """Bits of one element as ONNX stores it; `STRING_BITS` for strings, 0 for UNDEFINED."""
    if dtype is ir.DataType.STRING:
        return STRING_BITS
    if dtype is ir.DataType.UNDEFINED:
        return 0
    return dtype.bitwidth


@dataclass(frozen=True)
class StorageWidths:
    """Bits per element of each ONNX type on the chip.

    Attributes:
        bits: types held at another width than ONNX's own.
        unpacking: where weights of a few bits are unpacked.
    """

    bits: Mapping[ir.DataType, int]
    unpacking: WeightUnpacking = "load"

    def element_bits(self, dtype: ir.DataType) -> int:
        """Bits of one element of `dtype`."""
        return self.bits.get(dtype, onnx_bits(dtype))

    def bytes_of(self, elements: int, dtype: ir.DataType | None) -> int:
        """Bytes of `elements` packed elements; types below 8 bits share bytes."""
        return 0 if dtype is None else -(-elements * self.element_bits(dtype) // 8)

    def value_bytes(self, value: ir.Value) -> int:
        """Bytes of `value`; of a dequantised constant those that it is dequantised from, if fewer.

        A symbolic dimension counts as 1. 0 where the type or the rank is unknown. Sequences and
        optionals count as one of their elements: how many there are is known only at run time.
        """
        elements, dtype = element_count(value), value_dtype(value)
        if self.unpacking == "ahead":
            if (found := unpacked_ahead(value)) is not None:
                packed_bits = elements * (0 if dtype is None else onnx_bits(dtype))
                return self.bytes_of(packed_bits // found[1], found[0]) if found[1] else 0
        elif (parts := packed_operands(value)) and not value.is_graph_output():
            packed = sum(self.bytes_of(element_count(v), value_dtype(v)) for v in parts)
            return min(packed, self.bytes_of(elements, dtype))
        return self.bytes_of(elements, dtype)

    def part_bytes(self, value: ir.Value, elements: int) -> int:
        """Bytes of a number of elements of `value`, of a packed one in proportion."""
        found = unpacked_ahead if self.unpacking == "ahead" else packed_operands
        if found(value):
            return -(-self.value_bytes(value) * elements // max(element_count(value), 1))
        return self.bytes_of(elements, value_dtype(value))

    def unpacking_ops(self, value: ir.Value, elements: int) -> int:
        """Lane operations for a number of elements of an operand that is unpacked in each step."""
        on_lanes = self.unpacking == "lanes" and packed_operands(value)
        return UNPACK_OPS * elements if on_lanes else 0


def value_dtype(value: ir.Value) -> ir.DataType | None:
    """Element type of `value`, through sequences and optionals; None where unknown."""
    kind = value.type
    if kind is None:
        return None if value.const_value is None else value.const_value.dtype
    return kind.dtype


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
