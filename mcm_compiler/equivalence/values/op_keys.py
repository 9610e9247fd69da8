"""Facts of an op apart from what it reads: its definition, its attributes and its outputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.graph.structure import onnx_domain, schema_of, since_version

GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)

ONNX_DOMAIN = ""


def domain_of(node: ir.Node) -> str:
    """The domain, with one name for ONNX's own."""
    return onnx_domain(node.domain)


def definition_version(domain: str, op_type: str, version: int) -> int:
    """The version in which an op got the meaning that it has in `version` of its domain."""
    return since_version(op_type, version, domain) or version


@lru_cache(maxsize=4096)
def default_attributes(domain: str, op_type: str, version: int) -> Mapping[str, Hashable]:
    """Keys of the values that attributes have where a node leaves them out."""
    schema = schema_of(op_type, version, domain)
    if schema is None:
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


@dataclass
class NodeScope:
    """Where a node stands.

    Attributes:
        opsets: versions by domain.
        attributes: of the call, within the body of a function.
        depth: how many bodies of ops it is in.
        draws: number of ops like no other that the body has so far.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, ir.Attr] = field(default_factory=dict[str, ir.Attr])
    depth: int = 0
    draws: int = 0


def static_shape(value: ir.Value) -> tuple[int, ...] | None:
    """The shape of a tensor where it is declared and fully known."""
    return static_dims(value.shape) if isinstance(value.type, ir.TensorType) else None


def constant_tensor(attribute: ir.Attr) -> ir.TensorProtocol | None:
    """The tensor that an attribute of a `Constant` gives, or None for a kind without one."""
    value = attribute.value
    match attribute.name:
        case "value":
            return attribute.as_tensor()
        case "value_int" | "value_ints":
            return ir.Tensor(np.array(value, np.int64))
        case "value_float" | "value_floats":
            return ir.Tensor(np.array(value, np.float32))
        case "value_string" | "value_strings":
            words = [value] if attribute.name == "value_string" else list(value)
            texts = [w.encode() if isinstance(w, str) else bytes(w) for w in words]
            shape = () if attribute.name == "value_string" else (len(texts),)
            return ir.StringTensor(texts, shape=ir.Shape(shape))
        case _:
            return None


def existing_outputs(node: ir.Node, attributes: Iterable[ir.Attr]) -> tuple[bool, ...]:
    """Which outputs have a name; those at the end that have none are left away.

    A `BatchNormalization` in training makes all of its statistics, whether or not somebody wants
    them: an import names those that are left away, because onnxruntime crashes where one is.

    Args:
        node: the op.
        attributes: of it, with those of a call in place of references.
    """
    if node.op_type == "BatchNormalization" and node.domain in ("", "ai.onnx"):
        for attribute in attributes:
            if attribute.name == "training_mode" and attribute.value:
                return (True, True, True)
    found = [bool(value.name) for value in node.outputs]
    while found and not found[-1]:
        found.pop()
    return tuple(found)
