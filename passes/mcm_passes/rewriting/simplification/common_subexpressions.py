"""Merges ops that compute the same from the same (hash-consing).

`onnx_ir` has a pass of this kind; it compares attributes by value, so that 0.0 equals -0.0, and
may keep an op whose optional output is unnamed in place of one whose output is read.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import onnx_ir as ir

from mcm_compiler.graph.constants import is_deterministic
from mcm_passes.rewriting.simplification import replacing

_MAX_ATTRIBUTE_BYTES = 4096
"""Tensors as attributes are compared up to this size."""


def merge_common_subexpressions(graph: ir.Graph) -> int:
    """Removes each op of the main graph that repeats an earlier one, in one sweep.

    Left alone: ops that are random, hold subgraphs or make graph outputs; and `ConstantOfShape`,
    since equal fills often stand for weights that differ.

    Returns:
        The number of ops that were removed.
    """
    first_of: dict[Hashable, ir.Node] = {}
    removed: list[ir.Node] = []
    for node in graph:
        key = _key(node)
        if key is None:
            continue
        first = first_of.setdefault(key, node)
        if first is node or not all(
            replacing.is_replaceable(value, graph) for value in node.outputs
        ):
            continue
        if any(map(replacing.is_overwritten, (*first.outputs, *node.outputs))):
            continue
        for kept, value in zip(first.outputs, node.outputs, strict=True):
            replacing.complete_type(kept, value)
            value.replace_all_uses_with(kept)
        removed.append(node)
    graph.remove(removed, safe=True)
    return len(removed)


def _key(node: ir.Node) -> Hashable | None:
    if node.op_type == "ConstantOfShape" or not node.outputs or not is_deterministic(node):
        return None
    attributes: list[Hashable] = []
    for name, attribute in sorted(node.attributes.items()):
        content = None if attribute.is_ref() else _content(attribute)
        if content is None:
            return None
        attributes.append((name, attribute.type, content))
    return (
        node.op_identifier(),
        # An unnamed output does not exist, so it cannot stand for one that is read.
        tuple(bool(value.name) for value in node.outputs),
        tuple(id(value) if value is not None else None for value in node.inputs),
        tuple(attributes),
    )


def _content(attribute: ir.Attr) -> Hashable | None:
    """The value as something whose equality is that of bits; None where there is no such form."""
    match attribute.type:
        case ir.AttributeType.INT:
            return attribute.as_int()
        case ir.AttributeType.INTS:
            return tuple(attribute.as_ints())
        case ir.AttributeType.FLOAT:
            return np.float32(attribute.as_float()).tobytes()
        case ir.AttributeType.FLOATS:
            return np.array(attribute.as_floats(), dtype=np.float32).tobytes()
        case ir.AttributeType.STRING:
            return attribute.value  # bytes where they are not UTF-8
        case ir.AttributeType.STRINGS:
            return tuple(attribute.value)
        case ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.dtype is ir.DataType.STRING or tensor.nbytes > _MAX_ATTRIBUTE_BYTES:
                return None
            return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
        case _:
            return None
