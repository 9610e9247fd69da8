"""Kernels that must cost the same, because all that their cost is made of is equal.

Large graphs repeat a few kinds of kernels; those that are alike are costed once.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.graph.annotations import properties_of
from mcm_compiler.graph.constants import leaves
from mcm_compiler.graph.states import IN_PLACE_PROPERTY
from mcm_compiler.graph.static_shapes import static_dims
from mcm_hardware.op_costs.elementwise import BY_SHAPES_ALONE
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE
from mcm_hardware.op_costs.node_shapes import constant_scalar
from mcm_hardware.tensors.packed_weights import is_constant, packed_operands

Likeness = tuple[object, ...]
"""Kernels with equal ones cost the same on one chip."""

_COMPARED = frozenset(
    {
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.FLOAT,
        ir.AttributeType.STRING,
    }
)
"""Types of attributes that are compared by value."""


def likeness(nodes: Sequence[ir.Node]) -> Likeness | None:
    """All that the cost of a kernel follows from, as `kernel_work` reads it.

    Args:
        nodes: the ops in topological order.

    Returns:
        The ops and how they are wired, element types and static shapes of what they read and
        write, which of that is constant and, of several ops, what leaves the kernel. Of ops whose
        formula sees more than shapes, attributes and small constants as well. None where the cost
        may follow from anything else: data and graphs in attributes, open dimensions.
    """
    parts: list[object] = []
    places: dict[ir.Value, int] = {}
    for node in nodes:
        kind, inputs = (node.domain, node.op_type), node.inputs
        parts += (kind, len(inputs), properties_of(node).get(IN_PLACE_PROPERTY))
        if by_more := kind not in BY_SHAPES_ALONE:
            if kind not in FORMULA_TABLE or (fields := _attributes(node)) is None:
                return None
            parts.append(fields)
        for value in inputs:
            if value is None or value in places:
                parts.append(None if value is None else places[value])
                continue
            places[value] = len(places)
            if (known := _static(value)) is None:
                return None
            parts.append(known)
            parts.append(value.const_value is not None or is_constant(value))
            if value.producer() is not None:
                parts += map(_static, packed_operands(value))
            if by_more and value.const_value is not None:
                parts.append(constant_scalar(value))
        for value in node.outputs:
            places[value] = len(places)
            if (known := _static(value)) is None:
                return None
            parts.append(known)
    if len(nodes) > 1:
        members = set(nodes)
        parts += [leaves(value, members) for node in nodes for value in node.outputs]
    return tuple(parts)


def _attributes(node: ir.Node) -> tuple[object, ...] | None:
    """Attributes by name, or None where some are not compared."""
    attributes = node.attributes.data
    if not attributes:
        return ()
    found: list[object] = []
    for name, attribute in attributes.items():
        if attribute.is_ref() or attribute.type not in _COMPARED:
            return None
        value = attribute.value
        if attribute.type is ir.AttributeType.INTS:
            value = tuple(value)
        found.append((name, attribute.type, value))
    return tuple(found)


def _static(value: ir.Value) -> tuple[ir.DataType, tuple[int, ...]] | None:
    kind = value.type
    if type(kind) is not ir.TensorType or (dims := static_dims(value.shape)) is None:
        return None
    return kind.dtype, dims
