"""Kernels that must cost the same, because all that their cost is made of is equal.

Large graphs repeat a few kinds of kernels; those that are alike are costed once.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.graph.leaving_values import leaves
from mcm_compiler.graph.static_shapes import static_dims
from mcm_hardware.chip.kernel_work import is_constant
from mcm_hardware.op_costs.elementwise import BY_SHAPES_ALONE

Likeness = tuple[object, ...]
"""Kernels with equal ones cost the same on one chip."""


def likeness(nodes: Sequence[ir.Node]) -> Likeness | None:
    """What the cost of a kernel of elementwise ops follows from, as `kernel_work` reads it.

    Args:
        nodes: the ops in topological order.

    Returns:
        The ops and how they are wired, element types and static shapes of what they read and
        write, which of that is constant and, of several ops, what leaves the kernel. None where the
        cost may follow from anything else: attributes, values of constants, open dimensions.
    """
    parts: list[object] = []
    places: dict[ir.Value, int] = {}
    for node in nodes:
        if (node.domain, node.op_type) not in BY_SHAPES_ALONE:
            return None
        parts += (node.domain, node.op_type, len(node.inputs))
        for value in node.inputs:
            if value is None or value in places:
                parts.append(None if value is None else places[value])
                continue
            places[value] = len(places)
            if (known := _static(value)) is None:
                return None
            parts += (*known, is_constant(value))
        for value in node.outputs:
            places[value] = len(places)
            if (known := _static(value)) is None:
                return None
            parts += known
    if len(nodes) > 1:
        members = set(nodes)
        parts += [leaves(value, members) for node in nodes for value in node.outputs]
    return tuple(parts)


def _static(value: ir.Value) -> tuple[ir.DataType, tuple[int, ...]] | None:
    kind = value.type
    if type(kind) is not ir.TensorType or (dims := static_dims(value.shape)) is None:
        return None
    return kind.dtype, dims
