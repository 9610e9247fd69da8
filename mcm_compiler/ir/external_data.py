"""External data of ONNX files: confined to the model's folder, sizes checked before use.

Model files are untrusted. A location may try to leave the folder (`..`, an absolute path, a
symbolic link), an offset or length may pass the end of the file, a tensor may declare more
elements than its data holds. All of that is found here, before a byte is mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sized
from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a graph: initializers, attributes, and those of subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from tensors_of(attribute.g)
            for subgraph in attribute.graphs:
                yield from tensors_of(subgraph)


def check_tensors(proto: onnx.ModelProto, folder: Path) -> list[Diagnostic]:
    """Checks where each tensor's data lies and that it is as long as the tensor says.

    Args:
        proto: the model, external data not loaded.
        folder: the folder that external data must stay in.

    Returns:
        MCM-I020 (missing file), MCM-I021 (outside the folder), MCM-I022 (past the end of the
        file), MCM-I023 (length and shape disagree); at most one per tensor.
    """
    faults: list[Diagnostic] = []
    sizes: dict[str, int | Diagnostic] = {}
    for tensor in tensors_of(proto.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
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
            for tensor in tensors_of(proto.graph)
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
    elements = 1
    for dim in tensor.dims:
        elements *= dim
    return (elements * bits + 7) // 8


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


def _check_inline(tensor: onnx.TensorProto) -> Diagnostic | None:
    if not tensor.HasField("raw_data"):
        held = _held_elements(tensor)
        elements = 1
        for dim in tensor.dims:
            elements *= dim
        if held is not None and held != elements:
            return Diagnostic(
                "MCM-I023",
                f"the shape {list(tensor.dims)} calls for {elements} elements, the file holds "
                f"{held}",
                at=f"tensor {quote(tensor.name)}",
                hint="the file is damaged; export again",
            )
        return None
    declared = _declared_bytes(tensor)
    if declared is not None and declared != len(tensor.raw_data):
        return _length_fault(tensor, declared, len(tensor.raw_data))
    return None


def _held_elements(tensor: onnx.TensorProto) -> int | None:
    """Elements in the typed data fields; None for packed and complex types."""
    kind = onnx.TensorProto
    fields: dict[int, Sized] = {
        kind.FLOAT: tensor.float_data,
        kind.DOUBLE: tensor.double_data,
        kind.INT64: tensor.int64_data,
        kind.STRING: tensor.string_data,
        kind.UINT64: tensor.uint64_data,
        kind.UINT32: tensor.uint64_data,
    }
    field = fields.get(tensor.data_type)
    if field is None and tensor.data_type in (
        kind.INT32, kind.INT16, kind.INT8, kind.UINT16, kind.UINT8, kind.BOOL, kind.FLOAT16,
        kind.BFLOAT16,
    ):  # fmt: skip
        field = tensor.int32_data
    return None if field is None else len(field)


def _length_fault(tensor: onnx.TensorProto, declared: int, held: int) -> Diagnostic:
    return Diagnostic(
        "MCM-I023",
        f"the shape {list(tensor.dims)} calls for {declared} bytes, the file holds {held}",
        at=f"tensor {quote(tensor.name)}",
        hint="the file is damaged; export again",
    )
