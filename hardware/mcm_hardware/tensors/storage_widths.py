"""How many bytes a tensor takes in a chip's SRAM and on a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from mcm_hardware.tensors.value_shapes import element_count

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
    """

    bits: Mapping[ir.DataType, int]

    def element_bits(self, dtype: ir.DataType) -> int:
        """Bits of one element of `dtype`."""
        return self.bits.get(dtype, onnx_bits(dtype))

    def bytes_of(self, elements: int, dtype: ir.DataType | None) -> int:
        """Bytes of `elements` packed elements; types below 8 bits share bytes."""
        return 0 if dtype is None else -(-elements * self.element_bits(dtype) // 8)

    def value_bytes(self, value: ir.Value) -> int:
        """Bytes of `value`.

        A symbolic dimension counts as 1. 0 where the type or the rank is unknown. Sequences and
        optionals count as one of their elements: how many there are is known only at run time.
        """
        return self.bytes_of(element_count(value), value_dtype(value))


def value_dtype(value: ir.Value) -> ir.DataType | None:
    """Element type of `value`, through sequences and optionals; None where unknown."""
    kind = value.type
    if kind is None:
        return None if value.const_value is None else value.const_value.dtype
    return kind.dtype
