"""Shorter ways of `onnx_ir` from protobufs and to them, for what large graphs have most of.

While a model is read or written, three functions of `onnx_ir` are replaced; outside it is as it
was. What the shorter ways do not cover takes the usual one.

- Tensors are detached from the protobuf. One of `onnx_ir` asks its protobuf for type, shape and
  bytes whenever it is asked, and keeps all of it in memory: its messages share one arena.
- Values of one type and static shape share the shape, and the message that describes them.
- Only values with facts are asked for quantization. Others would get a store of half a kilobyte.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.graph.annotations import facts_of, properties_of
from mcm_compiler.graph.static_shapes import static_dims

_serde = cast("Any", ir.serde)
_read_tensor = _serde.deserialize_tensor
_read_info = _serde.deserialize_value_info_proto
_write_value = _serde.serialize_value_into
_write_quantization = _serde._maybe_add_quantization_annotation

_PLAIN = {
    int(dtype): (dtype, dtype.numpy().newbyteorder("<"))
    for dtype in ir.DataType
    if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING) and dtype.bitwidth >= 8
}
"""Types whose elements are stored one after the other, by their number in ONNX."""

_Shapes = dict[tuple[int, ...], ir.Shape]


class HeldTensor(ir.Tensor[np.ndarray]):
    """A tensor in an array that has each of its elements whole, and their bytes as ONNX has."""

    @property
    def nbytes(self) -> int:
        return self.numpy().nbytes

    @property
    def stored(self) -> np.ndarray:
        """Its bytes, not copied."""
        return self.numpy().reshape(-1).view(np.uint8)


@contextmanager
def reading() -> Generator[None]:
    """Reads tensors and types of values as `held_tensor` and `_take_info` do."""
    shapes: _Shapes = {}
    known: dict[bytes, tuple[ir.DataType, str | None, ir.Shape]] = {}

    def read_tensor(proto: onnx.TensorProto, base_path: str = "") -> ir.TensorProtocol:
        tensor = held_tensor(proto, shapes)
        return _read_tensor(proto, base_path) if tensor is None else tensor

    def read_info(proto: onnx.ValueInfoProto, value: ir.Value | None) -> ir.Value:
        text = proto.type.SerializeToString()
        if value is None or text not in known or proto.metadata_props:
            value = cast("ir.Value", _read_info(proto, value))
            if type(value.type) is ir.TensorType and static_dims(value.shape) is not None:
                shape = cast("ir.Shape", value.shape)
                shape.freeze()
                known[text] = value.type.dtype, value.type.denotation, shape
            return value
        dtype, denotation, shape = known[text]
        value.type, value.shape = ir.TensorType(dtype, denotation=denotation), shape
        value.doc_string = proto.doc_string if proto.HasField("doc_string") else None
        return value

    _serde.deserialize_tensor = read_tensor
    _serde.deserialize_value_info_proto = read_info
    try:
        yield
    finally:
        _serde.deserialize_tensor = _read_tensor
        _serde.deserialize_value_info_proto = _read_info


@contextmanager
def writing() -> Generator[None]:
    """Writes types of values that are alike once, and copies them."""
    known: dict[tuple[ir.DataType, int], tuple[ir.Shape, onnx.TypeProto]] = {}

    def write_value(proto: onnx.ValueInfoProto, from_: ir.Value, *, name: str = "") -> None:
        kind, shape = from_.type, from_.shape
        if (
            type(kind) is not ir.TensorType
            or shape is None
            or not shape.frozen
            or kind.denotation
            or name
            or not from_.name
            or from_.doc_string
            or properties_of(from_)
        ):
            _write_value(proto, from_, name=name)
            return
        key = kind.dtype, id(shape)
        if key not in known:
            _write_value(proto, from_)
            known[key] = shape, onnx.TypeProto()
            known[key][1].CopyFrom(proto.type)
            return
        proto.name = from_.name
        proto.type.CopyFrom(known[key][1])

    _serde.serialize_value_into = write_value
    _serde._maybe_add_quantization_annotation = _write_known_quantization
    try:
        yield
    finally:
        _serde.serialize_value_into = _write_value
        _serde._maybe_add_quantization_annotation = _write_quantization


def held_tensor(proto: onnx.TensorProto, shapes: _Shapes) -> ir.TensorProtocol | None:
    """A tensor with a copy of the bytes of `proto`.

    Args:
        proto: any tensor.
        shapes: known shapes; one that it lacks is added.

    Returns:
        The tensor; None where the bytes are not inline, or are not one element after the other.
    """
    kind = _PLAIN.get(proto.data_type)
    if kind is None or proto.data_location == onnx.TensorProto.EXTERNAL:
        return None
    dtype, elements = kind
    data, dims = proto.raw_data, tuple(proto.dims)
    if not data or len(data) != math.prod(dims) * elements.itemsize:
        return None
    if (shape := shapes.get(dims)) is None:
        shape = shapes[dims] = ir.Shape(dims, frozen=True)
    return HeldTensor(
        np.frombuffer(data, elements).reshape(dims),
        dtype,
        shape=shape,
        name=proto.name,
        doc_string=proto.doc_string if proto.HasField("doc_string") else None,
        metadata_props=ir.serde.deserialize_metadata_props(proto.metadata_props),
    )


def _write_known_quantization(graph: onnx.GraphProto, value: ir.Value) -> None:
    if facts_of(value):
        _write_quantization(graph, value)
