"""What an op is, apart from what it reads: its definition and its attributes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.equivalence.values.weight_contents import WeightContents

GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)

ONNX_DOMAIN = ""


def domain_of(node: ir.Node) -> str:
    """The domain, with one name for ONNX's own."""
    return ONNX_DOMAIN if node.domain == "ai.onnx" else node.domain


@lru_cache(maxsize=4096)
def definition_version(domain: str, op_type: str, version: int) -> int:
    """The version in which an op got the meaning that it has in `version` of its domain."""
    try:
        return int(onnx.defs.get_schema(op_type, version, domain).since_version)
    except onnx.defs.SchemaError:
        return version


@lru_cache(maxsize=4096)
def default_attributes(domain: str, op_type: str, version: int) -> Mapping[str, Hashable]:
    """Keys of the values that attributes have where a node leaves them out."""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return {}
    contents = WeightContents()
    found: dict[str, Hashable] = {}
    for name, attribute in schema.attributes.items():
        value = attribute.default_value
        if value.type != onnx.AttributeProto.UNDEFINED:
            # The schema's own value has no name.
            named = onnx.AttributeProto()
            named.CopyFrom(value)
            named.name = name
            found[name] = attribute_key(ir.serde.deserialize_attribute(named), contents)
    return found


def attribute_key(attribute: ir.Attr, contents: WeightContents) -> Hashable:
    """The value of an attribute other than a graph, equal only where all its bits are."""
    value: Any = attribute.value
    match attribute.type:
        case ir.AttributeType.FLOAT:
            return ("f", np.float32(value).tobytes())
        case ir.AttributeType.FLOATS:
            return ("fs", np.array(list(value), np.float32).tobytes())
        case ir.AttributeType.INT:
            return ("i", int(value))
        case ir.AttributeType.INTS:
            return ("is", tuple(int(item) for item in value))
        case ir.AttributeType.STRING:
            return ("s", _text(value))
        case ir.AttributeType.STRINGS:
            return ("ss", tuple(map(_text, value)))
        case ir.AttributeType.TENSOR:
            return ("t", _tensor_key(value, contents))
        case ir.AttributeType.TENSORS:
            return ("ts", tuple(_tensor_key(item, contents) for item in value))
        case _:
            return ("p", ir.serde.serialize_attribute(attribute).SerializeToString())


def _text(value: Any) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def _tensor_key(tensor: ir.TensorProtocol, contents: WeightContents) -> Hashable:
    if tensor.dtype is not ir.DataType.STRING and tensor.nbytes <= 64:
        return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
    return contents.content(tensor)
