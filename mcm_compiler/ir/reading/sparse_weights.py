"""Sparse initializers, made dense: neither the IR nor a chip's memory knows another form."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.structure import all_graphs

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
