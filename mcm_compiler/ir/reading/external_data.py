"""External data of ONNX files: confined to the model's folder, sizes checked before use.

Model files are untrusted. A location may try to leave the folder (`..`, an absolute path, a
symbolic link), an offset or length may pass the end of the file, a tensor may declare more
elements than its data holds. All of that is found here, before a byte is mapped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote

_ELEMENT_TYPES = frozenset(int(entry) for entry in ir.DataType) - {int(ir.DataType.UNDEFINED)}


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a graph: initializers, attributes, and those of subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    yield from _attribute_tensors(graph.node)


def _attribute_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            wants = attribute.type == onnx.AttributeProto.TENSOR and not attribute.ref_attr_name
            if wants or attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("sparse_tensor"):
                yield attribute.sparse_tensor.values
                yield attribute.sparse_tensor.indices
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from tensors_of(attribute.g)
            for subgraph in attribute.graphs:
                yield from tensors_of(subgraph)


def _all_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from tensors_of(proto.graph)
    for function in proto.functions:
        yield from _attribute_tensors(function.node)


def check_tensors(proto: onnx.ModelProto, folder: Path) -> list[Diagnostic]:
    """Checks where each tensor's data lies and that it is as long as the tensor says.

    Args:
        proto: the model, external data not loaded.
        folder: the folder that external data must stay in.

    Returns:
        MCM-I020 (missing file), MCM-I021 (outside the folder), MCM-I022 (past the end of the
        file), MCM-I023 (length and shape disagree), MCM-I025 (no element type, or a shape that is
        none); at most one per tensor.
    """
    faults: list[Diagnostic] = []
    sizes: dict[str, int | Diagnostic] = {}
    for tensor in _all_tensors(proto):
        if (fault := _check_kind(tensor)) is not None:
            pass
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            fault = _check_external(tensor, folder, sizes)
        else:
            fault = _check_inline(tensor)
        if fault is not None:
            faults.append(fault)
    return faults


def external_files(proto: onnx.ModelProto) -> list[str]:
    """Locations of all external data files, sorted."""
    return sorted(
        {
            entry.value
            for tensor in _all_tensors(proto)
            if tensor.data_location == onnx.TensorProto.EXTERNAL
            for entry in tensor.external_data
            if entry.key == "location"
        }
    )


def _declared_bytes(tensor: onnx.TensorProto) -> int | None:
    """Bytes that the tensor's shape and type call for; None where that is not fixed (strings)."""
    try:
        dtype = ir.DataType(tensor.data_type)
        bits = dtype.bitwidth
    except (ValueError, TypeError):
        return None
    return (math.prod(tensor.dims) * bits + 7) // 8


def _check_external(
    tensor: onnx.TensorProto, folder: Path, sizes: dict[str, int | Diagnostic]
) -> Diagnostic | None:
    place = f"tensor {quote(tensor.name)}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if location not in sizes:
        sizes[location] = _file_size(location, folder)
    size = sizes[location]
    if isinstance(size, Diagnostic):
        return Diagnostic(size.code, size.message, place, size.hint)
    declared = _declared_bytes(tensor)
    if declared is None:
        return Diagnostic(
            "MCM-I023",
            "external data holds a type without a fixed width",
            at=place,
            hint="store strings inside the model file",
        )
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries["length"]) if "length" in entries else declared
    except ValueError:
        return Diagnostic(
            "MCM-I022",
            "offset or length is not a number",
            at=place,
            hint="the file is damaged; export again",
        )
    if offset < 0 or length < 0 or offset + length > size:
        return Diagnostic(
            "MCM-I022",
            f"bytes {offset} to {offset + length} are past the end of {quote(location)}, which "
            f"has {size} bytes",
            at=place,
            hint="the data file is cut short or belongs to another model; export again",
        )
    if length != declared:
        return _length_fault(tensor, declared, length)
    return None


def _file_size(location: str, folder: Path) -> int | Diagnostic:
    escape = Diagnostic(
        "MCM-I021",
        f"external data at {quote(location)} is outside the model's folder",
        hint="keep external data beside the model, and name it by a relative path",
    )
    if not location or "\0" in location or os.path.isabs(location):
        return escape
    root = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath([root, real]) != root:
        return escape
    if not os.path.isfile(real):
        return Diagnostic(
            "MCM-I020",
            f"the external data file {quote(location)} does not exist",
            hint="copy it beside the model",
        )
    if os.stat(real).st_nlink > 1:
        return Diagnostic(
            "MCM-I021",
            f"the external data file {quote(location)} has several hard links, so that it may be a "
            "file from outside the model's folder",
            hint="replace the link by a copy",
        )
    return os.path.getsize(real)


def _check_kind(tensor: onnx.TensorProto) -> Diagnostic | None:
    """Element type and shape on their own."""
    complaint = None
    if tensor.data_type not in _ELEMENT_TYPES:
        complaint = f"there is no element type {tensor.data_type}"
    elif any(dim < 0 for dim in tensor.dims) or math.prod(filter(None, tensor.dims)) >= 1 << 62:
        complaint = f"the shape {list(tensor.dims)} is not a shape"
    if complaint is None:
        return None
    return Diagnostic(
        "MCM-I025",
        complaint,
        at=f"tensor {quote(tensor.name)}",
        hint="the file is damaged; export again",
    )


def _check_inline(tensor: onnx.TensorProto) -> Diagnostic | None:
    fields = (
        tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data,
        tensor.uint64_data, tensor.string_data,
    )  # fmt: skip
    if sum(map(bool, fields)) + bool(tensor.raw_data) > 1:
        return Diagnostic(
            "MCM-I023",
            "the data is given more than once, in fields of several types",
            at=f"tensor {quote(tensor.name)}",
            hint="the file is damaged; export again",
        )
    declared = _declared_bytes(tensor)
    if tensor.HasField("raw_data") and declared is not None:
        if declared != len(tensor.raw_data):
            return _length_fault(tensor, declared, len(tensor.raw_data))
        return None
    field, per_element = _field_of(tensor)
    held = len(field)
    expected = math.ceil(math.prod(tensor.dims) * per_element)
    if held != expected:
        return Diagnostic(
            "MCM-I023",
            f"the shape {list(tensor.dims)} calls for {expected} entries, the file holds {held}",
            at=f"tensor {quote(tensor.name)}",
            hint="the file is damaged; export again",
        )
    return None


def _field_of(tensor: onnx.TensorProto) -> tuple[Sized, float]:
    """The field that holds the data where it is not raw, and its entries for each element."""
    kind = onnx.TensorProto
    match tensor.data_type:
        case kind.FLOAT:
            return tensor.float_data, 1
        case kind.COMPLEX64:
            return tensor.float_data, 2
        case kind.DOUBLE:
            return tensor.double_data, 1
        case kind.COMPLEX128:
            return tensor.double_data, 2
        case kind.INT64:
            return tensor.int64_data, 1
        case kind.STRING:
            return tensor.string_data, 1
        case kind.UINT32 | kind.UINT64:
            return tensor.uint64_data, 1
        case _:
            # Types of less than a byte are packed into bytes, and each byte takes an entry.
            return tensor.int32_data, min(1.0, ir.DataType(tensor.data_type).bitwidth / 8)


def _length_fault(tensor: onnx.TensorProto, declared: int, held: int) -> Diagnostic:
    return Diagnostic(
        "MCM-I023",
        f"the shape {list(tensor.dims)} calls for {declared} bytes, the file holds {held}",
        at=f"tensor {quote(tensor.name)}",
        hint="the file is damaged; export again",
    )
