"""What nodes, values and attributes tell before a graph is numbered, and where a node stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from mcm_compiler.graph.static_shapes import static_dims


@dataclass
class NodeScope:
    """Where a node stands.

    Attributes:
        opsets: versions by domain.
        attributes: of the call, within the body of a function.
        depth: how many bodies of ops it lies in.
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
