"""Types that a file declares for values: inputs must have one, others may say nothing or truth."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.structure import all_graphs

_KNOWN = frozenset(int(entry) for entry in ir.DataType) - {int(ir.DataType.UNDEFINED)}


def check_declared_types(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Checks the types of inputs, and drops those of other values that say nothing.

    Negative dimensions become open ones, as onnxruntime reads them.

    Returns:
        MCM-I033 for an input of the main graph without a type, and for element types that do not
        exist.
    """
    faults: list[Diagnostic] = []
    weights = {tensor.name for tensor in proto.graph.initializer}
    for graph in all_graphs(proto.graph):
        main = graph is proto.graph
        for value in (*graph.input, *graph.output, *graph.value_info):
            complaint = _complaint(value.type)
            if complaint == "":
                value.ClearField("type")
            elif complaint is not None:
                faults.append(_fault(complaint, value.name))
            _open_negative_dimensions(value.type)
        if main:
            faults += [
                _fault("it has no type", value.name)
                for value in graph.input
                if not value.HasField("type") and value.name not in weights
            ]
    return faults


def _fault(complaint: str, name: str) -> Diagnostic:
    return Diagnostic("MCM-I033", complaint, at=f"value {quote(name)}")


def _open_negative_dimensions(declared: onnx.TypeProto) -> None:
    while (kind := declared.WhichOneof("value")) in ("sequence_type", "optional_type"):
        declared = getattr(declared, kind).elem_type
    if kind == "tensor_type":
        for dim in declared.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def _complaint(declared: onnx.TypeProto) -> str | None:
    """Complaint about a type: an empty text where it says nothing, None where it is fine."""
    kind = declared.WhichOneof("value")
    if kind is None:
        return ""
    part: Any = getattr(declared, kind)
    if kind in ("tensor_type", "sparse_tensor_type"):
        if part.elem_type == onnx.TensorProto.UNDEFINED:
            return ""
        if part.elem_type not in _KNOWN:
            return f"there is no element type {part.elem_type}"
        return None
    if kind in ("sequence_type", "optional_type"):
        return _complaint(part.elem_type)
    if kind == "map_type":
        return _complaint(part.value_type)
    return None
