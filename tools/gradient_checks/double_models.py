"""Models in double precision, where differences tell a gradient to many digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
_TYPE_ATTRIBUTES = ("to", "dtype", "stash_type")


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose floating-point values are all float64, in bodies and functions as well."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _graph(copy.graph)
    for function in copy.functions:
        for node in function.node:
            _node(node)
    return copy


def array_in_double(array: Array) -> Array:
    """An array as `in_double` has it."""
    return array.astype(np.float64) if _is_float(array) else array


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _graph(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for info in (*graph.input, *graph.output):
        _type(info.type)
    for tensor in graph.initializer:
        _tensor(tensor)
    for node in graph.node:
        _node(node)


def _type(kind: onnx.TypeProto) -> None:
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        if kind.tensor_type.elem_type in _FLOATS:
            kind.tensor_type.elem_type = TensorProto.DOUBLE
    elif which in ("sequence_type", "optional_type"):
        _type(getattr(kind, which).elem_type)


def _tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _FLOATS:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _node(node: onnx.NodeProto) -> None:
    for attribute in list(node.attribute):
        if attribute.type == AttributeProto.TENSOR:
            _tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _graph(attribute.g)
        elif attribute.name in _TYPE_ATTRIBUTES and attribute.i in _FLOATS:
            attribute.i = TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            value = np.array(helper.get_attribute_value(attribute), np.float64)
            node.attribute.remove(attribute)
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))
    fills = node.op_type == "ConstantOfShape" and not node.attribute
    if fills:
        zero = numpy_helper.from_array(np.zeros(1, np.float64))
        node.attribute.append(helper.make_attribute("value", zero))


def with_loss(model: onnx.ModelProto, factors: dict[str, Array], loss: str) -> onnx.ModelProto:
    """A copy whose only output is `Σ factor · output` over some outputs of a model.

    Args:
        model: in double.
        factors: of the shape of each output that counts.
        loss: name of the new output.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if not any(entry.domain in ("", "ai.onnx") for entry in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid("", 18))
    terms: list[str] = []
    for index, (output, factor) in enumerate(factors.items()):
        names = [f"{loss}.{index}.{word}" for word in ("factor", "product", "sum")]
        copy.graph.initializer.append(numpy_helper.from_array(factor, names[0]))
        copy.graph.node.append(helper.make_node("Mul", [output, names[0]], [names[1]], names[1]))
        copy.graph.node.append(
            helper.make_node("ReduceSum", [names[1]], [names[2]], names[2], keepdims=0)
        )
        terms.append(names[2])
    copy.graph.node.append(helper.make_node("Sum", terms, [loss], loss))
    del copy.graph.output[:]
    copy.graph.output.append(helper.make_tensor_value_info(loss, TensorProto.DOUBLE, []))
    return copy


def with_constants(model: onnx.ModelProto, values: dict[str, Array]) -> onnx.ModelProto:
    """A copy in which some inputs are weights, and all nodes have names of their own."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [info for info in copy.graph.input if info.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in values.items())
    for index, node in enumerate(copy.graph.node):
        node.name = f"n{index}"
    return copy


def set_shapes(model: onnx.ModelProto, shapes: dict[str, Sequence[int]]) -> None:
    """Gives inputs and outputs their static shapes, in place."""
    known = [*model.graph.input, *model.graph.output]
    for info in known:
        if info.name in shapes and info.type.HasField("tensor_type"):
            kind = info.type.tensor_type.elem_type
            info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shapes[info.name]))
    del model.graph.value_info[:]
    model.graph.value_info.extend(info for info in model.graph.output if info.name in shapes)
