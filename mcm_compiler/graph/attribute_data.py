"""Data that ops hold in their attributes: trees, support vectors, encoders, vocabularies.

A chip stores these numbers as it stores weights, so each such attribute has a stand-in value whose
type and shape give its size.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.annotations import facts_of

_DATA_KEY = "mcm.attribute_data"

_STANDARD_WITH_DATA = frozenset({"StringNormalizer", "TfIdfVectorizer"})
"""Ops of the default domain with data in attributes; other lists there are about axes."""

_LONGEST_CONFIGURATION = 16
"""Longest list of a custom op that is about axes (pads of 8 axes) and no data."""


def attribute_data(node: ir.Node) -> tuple[ir.Value, ...]:
    """Stand-ins for the data in the attributes of `node`, by attribute; the same at every call.

    Lists and tensors of `ai.onnx.ml` ops and of vocabularies count in full; of other domains
    tensors, and lists longer than any that describes axes. Numbers have their ONNX types, texts
    count as bytes. A stand-in has no data: `ir.Value.const_value` is None.
    """
    if node.domain in ("", "ai.onnx") and node.op_type not in _STANDARD_WITH_DATA:
        return ()
    known = facts_of(node).get(_DATA_KEY)
    # A copy of an op takes over what its original has in `meta`; its data are its own.
    if known is None or known[0] is not node:
        shortest = 1 if node.domain in ("", "ai.onnx", "ai.onnx.ml") else _LONGEST_CONFIGURATION + 1
        known = node.meta[_DATA_KEY] = (node, tuple(_stand_ins(node, shortest)))
    return known[1]


def _stand_ins(node: ir.Node, shortest: int) -> list[ir.Value]:
    found: list[ir.Value] = []
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        dtype, size = _content(attribute, shortest)
        if size:
            found.append(ir.val(f"{node.name}/{attribute.name}", dtype, [size]))
    return found


def _content(attribute: ir.Attr, shortest: int) -> tuple[ir.DataType, int]:
    """Element type and elements of what an attribute holds; 0 elements where that is no data."""
    kind = attribute.type
    if kind is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        if tensor.dtype is ir.DataType.STRING:
            return ir.DataType.UINT8, tensor.nbytes
        return tensor.dtype, tensor.size
    values = attribute.value if kind in _LISTS else ()
    if len(values) < shortest:
        return ir.DataType.UINT8, 0
    if kind is ir.AttributeType.STRINGS:
        return ir.DataType.UINT8, sum(len(text.encode()) for text in attribute.as_strings())
    return _LISTS[kind], len(values)


_LISTS = {
    ir.AttributeType.FLOATS: ir.DataType.FLOAT,
    ir.AttributeType.INTS: ir.DataType.INT64,
    ir.AttributeType.STRINGS: ir.DataType.UINT8,
}
