"""External data of ONNX files: where onnxruntime reads it, sizes checked before use.

Model files are untrusted. A location may try to leave the folder (`..`, an absolute path, a
symbolic link). An offset or length may pass the end of the file, and a tensor may declare more
elements than its data holds. All of that is found here, before a byte is mapped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.structure import all_graphs
from mcm_compiler.text.file_kinds import HEAD_BYTES, LFS_POINTER, kind_of

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


def check_tensors(proto: onnx.ModelProto, path: Path) -> list[Diagnostic]:
    """Checks where each tensor's data is and that it is as long as the tensor says.

    External data is found from the folder of `path`. Once all links are followed it has to be in
    that folder, or in the folder of the file that `path` is a link to. This is the rule of
    onnxruntime 1.31, and the layout in which caches of model hubs store models.

    Args:
        proto: the model, external data not loaded.
        path: the model's file.

    Returns:
        MCM-I020 (missing file), MCM-I021 (outside the folder), MCM-I022 (past the end of the
        file), MCM-I023 (length and shape disagree), MCM-I025 (no element type, or a shape that is
        none); at most one per tensor.
    """
    faults: list[Diagnostic] = []
    sizes: dict[str, int | Diagnostic] = {}
    folder = path.absolute().parent
    roots = [os.path.realpath(folder), os.path.dirname(os.path.realpath(path))]
    for tensor in _all_tensors(proto):
        if (fault := _check_kind(tensor)) is not None:
            pass
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            fault = _check_external(tensor, folder, roots, sizes)
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


def name_real_files(proto: onnx.ModelProto, path: Path) -> None:
    """Puts the real path of its file in place of each location, which `check_tensors` found right.

    `onnx_ir` follows no link that leaves the folder of a model.
    """
    folder = path.absolute().parent
    for tensor in _all_tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = os.path.realpath(os.path.join(folder, entry.value))


def settle_external_attributes(model: ir.Model) -> None:
    """Takes tensors that attributes keep in external data to where a writer finds them, in place.

    A `Constant` of a graph becomes an initializer, which stays memory-mapped. All others, small
    in practice, are loaded.
    """
    for graph in graphs_of(model):
        for node in list(graph):
            value = node.attributes.get("value") if node.op_type == "Constant" else None
            if value is not None and isinstance(value.value, ir.ExternalTensor):
                _lift(graph, node, value.value)
    for body in (model.graph, *model.functions.values()):
        for node in body.all_nodes():
            for attribute in list(node.attributes.values()):
                if isinstance(attribute.value, ir.ExternalTensor):
                    loaded = ir.AttrTensor(attribute.name, _loaded(attribute.value))
                    node.attributes[attribute.name] = loaded
                elif attribute.type is ir.AttributeType.TENSORS and not attribute.is_ref():
                    several = [_loaded(tensor) for tensor in attribute.as_tensors()]
                    node.attributes[attribute.name] = ir.AttrTensors(attribute.name, several)


def _loaded(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)


def _lift(graph: ir.Graph, node: ir.Node, tensor: ir.ExternalTensor) -> None:
    old = node.outputs[0]
    tensor.name = old.name or ""
    weight = ir.val(old.name, const_value=tensor)
    old.replace_all_uses_with(weight, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    graph.register_initializer(weight)


def _declared_bytes(tensor: onnx.TensorProto) -> int | None:
    """Bytes that the tensor's shape and type call for; None where that is not fixed (strings)."""
    try:
        dtype = ir.DataType(tensor.data_type)
        bits = dtype.bitwidth
    except (ValueError, TypeError):
        return None
    return (math.prod(tensor.dims) * bits + 7) // 8


def _check_external(
    tensor: onnx.TensorProto, folder: Path, roots: Sequence[str], sizes: dict[str, int | Diagnostic]
) -> Diagnostic | None:
    place = f"tensor {quote(tensor.name)}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if location not in sizes:
        sizes[location] = _file_size(location, folder, roots)
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
        return Diagnostic("MCM-I022", "offset or length is not a number", at=place)
    if offset < 0 or length < 0 or offset + length > size:
        return Diagnostic(
            "MCM-I022",
            f"bytes {offset} to {offset + length} are past the end of {quote(location)}, which "
            f"has {size} bytes",
            at=place,
        )
    if length != declared:
        return _length_fault(tensor, declared, length)
    return None


def _file_size(location: str, folder: Path, roots: Sequence[str]) -> int | Diagnostic:
    escape = Diagnostic(
        "MCM-I021", f"external data at {quote(location)} is outside the model's folder"
    )
    if not location or "\0" in location or os.path.isabs(location):
        return escape
    real = os.path.realpath(os.path.join(folder, location))
    if not any(os.path.commonpath([root, real]) == root for root in roots):
        return escape
    if not os.path.isfile(real):
        what = "is not a file" if os.path.lexists(real) else "does not exist"
        return Diagnostic("MCM-I020", f"the external data file {quote(location)} {what}")
    size = os.path.getsize(real)
    if size < HEAD_BYTES:
        kind = kind_of(Path(real).read_bytes())
        if kind is not None and kind[0] == LFS_POINTER:
            message = f"the external data file {quote(location)} is {LFS_POINTER}"
            return Diagnostic("MCM-I020", message, hint=kind[1])
    return size


def _check_kind(tensor: onnx.TensorProto) -> Diagnostic | None:
    """Element type and shape on their own."""
    complaint = None
    if tensor.data_type not in _ELEMENT_TYPES:
        complaint = f"there is no element type {tensor.data_type}"
    elif any(dim < 0 for dim in tensor.dims) or math.prod(filter(None, tensor.dims)) >= 1 << 62:
        complaint = f"the shape {list(tensor.dims)} is not a shape"
    if complaint is None:
        return None
    return Diagnostic("MCM-I025", complaint, at=f"tensor {quote(tensor.name)}")


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
    )


MAX_DENSE_BYTES = 1 << 28
"""Size of a dense weight that may come from a sparse one; a file of any size can ask for any."""


def expand_sparse_weights(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Turns sparse initializers and sparse constants into dense ones, in place.

    Returns:
        MCM-I026 for those whose values, indices and shape do not belong together, or whose dense
        form is larger than `MAX_DENSE_BYTES`; they stay as they are.
    """
    faults: list[Diagnostic] = []
    for graph in all_graphs(proto.graph):
        for sparse in graph.sparse_initializer:
            dense = _dense(sparse)
            if isinstance(dense, str):
                faults.append(_fault(dense, sparse.values.name))
            else:
                graph.initializer.add().CopyFrom(dense)
        for node in graph.node:
            if node.op_type != "Constant":
                continue
            for attribute in node.attribute:
                if attribute.name != "sparse_value":
                    continue
                dense = _dense(attribute.sparse_tensor)
                if isinstance(dense, str):
                    faults.append(_fault(dense, node.output[0] if node.output else node.name))
                else:
                    attribute.CopyFrom(onnx.helper.make_attribute("value", dense))
        if not faults:
            del graph.sparse_initializer[:]
    return faults


def _fault(complaint: str, name: str) -> Diagnostic:
    return Diagnostic("MCM-I026", complaint, at=f"sparse weight {quote(name)}")


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto | str:
    """The dense tensor, or what is wrong with the sparse one."""
    dims = list(sparse.dims)
    if any(dim < 0 for dim in dims):
        return f"the shape {dims} is not a shape"
    kind = onnx.TensorProto
    parts = (sparse.values, sparse.indices)
    if any(part.data_location == kind.EXTERNAL for part in parts):
        return "its values or indices lie in external data"
    try:
        values = numpy_helper.to_array(sparse.values)
        indices = numpy_helper.to_array(sparse.indices)
    except (ValueError, TypeError, KeyError):
        return "its values or indices cannot be read"
    if values.dtype.kind not in "biufcV":
        return "its values are not numbers"
    elements = math.prod(dims)
    size = elements * max(values.dtype.itemsize, 1)
    if size > MAX_DENSE_BYTES:
        return f"the shape {dims} calls for {size} bytes, at most {MAX_DENSE_BYTES} are made dense"
    if indices.dtype != np.int64 or values.ndim != 1:
        return "its values are not a list, or its indices are not of type int64"
    if indices.shape == (len(values), len(dims)) and len(dims) != 1:
        limits = np.array(dims, dtype=np.int64)
        if bool(((indices < 0) | (indices >= limits)).any()):
            return f"an index lies outside the shape {dims}"
        strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
        flat = indices @ np.array(strides, dtype=np.int64)
    elif indices.size == len(values):
        flat = indices.reshape(-1)
        if bool(((flat < 0) | (flat >= elements)).any()):
            return f"an index lies outside the shape {dims}"
    else:
        return f"{len(values)} values have indices of shape {list(indices.shape)}"
    if len(np.unique(flat)) != len(flat):
        return "an element is given twice"
    dense = np.zeros(elements, dtype=values.dtype)
    dense[flat] = values
    return numpy_helper.from_array(dense.reshape(dims), sparse.values.name)
