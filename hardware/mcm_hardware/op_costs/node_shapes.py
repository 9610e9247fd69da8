"""Facts of a node for formulas. Every answer is total: odd graphs never fail a cost."""

from __future__ import annotations

import math

import onnx_ir as ir

from mcm_hardware.tensors.storage_widths import element_count, value_dims

MAX_PEEKED_BYTES = 64
"""Constants up to this size are looked into (exponents, trip counts, axes)."""


class NodeShapes:
    """Shapes, attributes and small constants of one node.

    Args:
        node: the node; its values may lack shapes and types.
    """

    def __init__(self, node: ir.Node) -> None:
        self.node = node

    def input(self, index: int) -> ir.Value | None:
        """Input `index`, or None where it is absent."""
        inputs = self.node.inputs
        return inputs[index] if index < len(inputs) else None

    def has(self, index: int) -> bool:
        """Return whether input `index` is given."""
        return self.input(index) is not None

    def dims(self, index: int) -> tuple[int, ...]:
        """Dimensions of input `index`; `()` where absent or unknown."""
        return value_dims(self.input(index)) or ()

    def dim(self, index: int, axis: int) -> int:
        """One dimension of input `index`; 1 where it does not exist."""
        dims = self.dims(index)
        return dims[axis] if -len(dims) <= axis < len(dims) else 1

    def size(self, index: int) -> int:
        """Elements of input `index`; 0 where absent or unknown."""
        return element_count(self.input(index))

    def out_dims(self, index: int = 0) -> tuple[int, ...]:
        """Dimensions of output `index`; `()` where absent or unknown."""
        outputs = self.node.outputs
        return (value_dims(outputs[index]) if index < len(outputs) else None) or ()

    def out_size(self, index: int = 0) -> int:
        """Elements of output `index`; 0 where absent or unknown."""
        outputs = self.node.outputs
        return element_count(outputs[index]) if index < len(outputs) else 0

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.type is not ir.AttributeType.INT:
            return default
        return attribute.as_int()

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers; `()` where absent."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.type is not ir.AttributeType.INTS:
            return ()
        return tuple(attribute.as_ints())

    def text(self, name: str, default: str = "") -> str:
        """A text attribute."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.type is not ir.AttributeType.STRING:
            return default
        return attribute.as_string()

    def count_of(self, name: str) -> int:
        """Length of a list attribute; of a tensor attribute, its elements."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return 0
        if attribute.type in _LISTS:
            return len(attribute.value)
        if attribute.type is ir.AttributeType.TENSOR:
            return math.prod(int(d) for d in attribute.as_tensor().shape.numpy())
        return 0

    def scalar(self, index: int) -> float | None:
        """Value of a constant input of one element; None where it is anything else."""
        return constant_scalar(self.input(index))


_LISTS = (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS)

_OPAQUE = (ir.DataType.STRING, ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)


def constant_scalar(value: ir.Value | None) -> float | None:
    """The finite number that a constant of one element holds, or None."""
    tensor = value.const_value if value is not None else None
    if tensor is None or tensor.dtype in _OPAQUE or tensor.nbytes > MAX_PEEKED_BYTES:
        return None
    array = tensor.numpy()
    number = float(array.reshape(-1)[0]) if array.size == 1 else math.nan
    return number if math.isfinite(number) else None
