"""How many bytes a tensor takes in a chip's SRAM and on a link."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.estimated_dims import dim_size
from mcm_compiler.graph.static_shapes import static_dims
from mcm_hardware.tensors.packed_weights import (
    UNPACK_OPS,
    WeightUnpacking,
    packed_operands,
    unpacked_ahead,
)

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
