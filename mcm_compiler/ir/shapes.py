"""Types and shapes of all values: by onnx's inference, then by one run in onnxruntime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution import run_session, session_for
from mcm_compiler.inputs import random_inputs
from mcm_compiler.ir.writer import total_tensor_bytes, write_model

MAX_RUN_BYTES = 4 << 30
"""Weights and known activations beyond which no model is run just to learn shapes."""


def infer_shapes(model: ir.Model) -> list[Diagnostic]:
    """Completes types and shapes of the main graph's values in place.

    Shapes of intermediate values that are not static are dropped first, because they may name
    dimensions that have a size by now. What onnx's inference leaves open is learnt from one run
    in onnxruntime with the open values as outputs (shapes that depend on data are then those of
    this run, and reported).

    Returns:
        Notes and warnings: MCM-I040 for values that stay unknown, MCM-I041 for shapes that come
        from a run.
    """
    given = {*model.graph.inputs, *model.graph.initializers.values()}
    for value in _values(model):
        if value not in given and value.shape is not None and not value.shape.is_static():
            value.shape = None
    for value in model.graph.initializers.values():
        if value.const_value is not None:
            value.shape = ir.Shape(value.const_value.shape.numpy())
            value.dtype = value.const_value.dtype
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    missing = _open_values(model)
    if not missing:
        return []
    _run_for_shapes(model, missing)
    still = _open_values(model)
    notes: list[Diagnostic] = []
    learnt = len(missing) - len(still)
    if learnt:
        notes.append(
            Diagnostic(
                "MCM-I041",
                f"shapes of {learnt} values come from one run with random inputs",
                at=f"value {quote(missing[0].name or '')} and others",
                severity=Severity.NOTE,
            )
        )
    if still:
        notes.append(
            Diagnostic(
                "MCM-I040",
                f"the type or shape of {len(still)} values is unknown; open dimensions count as 1",
                at=f"value {quote(still[0].name or '')}",
                hint="give all input shapes with --shape or --dim",
                severity=Severity.WARNING,
            )
        )
    return notes


def _values(model: ir.Model) -> Iterable[ir.Value]:
    for node in model.graph:
        yield from (v for v in node.outputs if v.name)


def _matters(value: ir.Value) -> bool:
    return value.is_graph_output() or bool(value.uses())


def _open_values(model: ir.Model) -> list[ir.Value]:
    return [
        v
        for v in _values(model)
        if _matters(v)
        and (
            v.type is None
            or (isinstance(v.type, ir.TensorType) and (v.shape is None or not v.shape.is_static()))
        )
    ]


def _run_for_shapes(model: ir.Model, missing: list[ir.Value]) -> None:
    """Sets what one run tells; leaves the model as it is where the run is refused or too large."""
    if total_tensor_bytes(model) > MAX_RUN_BYTES:
        return
    outputs = {v.name for v in model.graph.outputs}
    with tempfile.TemporaryDirectory(prefix="mcmc-shapes-") as folder:
        path = Path(folder) / "model.onnx"
        write_model(model, path)
        proto = onnx.load(path, load_external_data=False)
        proto.ClearField("metadata_props")
        for value in missing:
            if value.name not in outputs:
                proto.graph.output.add().name = value.name or ""
        path.write_bytes(proto.SerializeToString())
        try:
            with session_for(path) as session:
                kinds = {o.name: o.type for o in session.get_outputs()}
                names = [v.name or "" for v in missing]
                results = run_session(session, random_inputs(model, seed=0), names)
        except CompileError:
            return
    for value in missing:
        _learn(value, kinds[value.name or ""], results[value.name or ""])


def _learn(value: ir.Value, kind: str, result: object) -> None:
    """Takes type and shape from a runtime value; `kind` is such as `tensor(float)`."""
    dtype = _DTYPES.get(kind.removeprefix("seq(").removeprefix("tensor(").rstrip(")"))
    if kind.startswith("tensor(") and dtype is not None:
        value.type = ir.TensorType(dtype)
        shape = getattr(result, "shape", None)
        if shape is not None:
            value.shape = ir.Shape(shape)
    elif kind.startswith("seq(tensor(") and dtype is not None:
        value.type = ir.SequenceType(ir.TensorType(dtype))


_DTYPES = {
    "float": ir.DataType.FLOAT,
    "double": ir.DataType.DOUBLE,
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "int8": ir.DataType.INT8,
    "int16": ir.DataType.INT16,
    "int32": ir.DataType.INT32,
    "int64": ir.DataType.INT64,
    "uint8": ir.DataType.UINT8,
    "uint16": ir.DataType.UINT16,
    "uint32": ir.DataType.UINT32,
    "uint64": ir.DataType.UINT64,
    "bool": ir.DataType.BOOL,
    "string": ir.DataType.STRING,
    "complex64": ir.DataType.COMPLEX64,
    "complex128": ir.DataType.COMPLEX128,
}
