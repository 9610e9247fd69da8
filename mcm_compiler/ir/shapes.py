"""Types and shapes of all values: by onnx's inference, then by one run in onnxruntime."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution import open_session, run_session
from mcm_compiler.inputs import FILLS, random_inputs
from mcm_compiler.ir.contradictions import contradictions
from mcm_compiler.ir.dimensions import free_inputs
from mcm_compiler.ir.estimated_dims import dim_size, estimated_dim, is_estimated, upper_bound
from mcm_compiler.ir.fixed_shapes import fixed_shapes
from mcm_compiler.ir.isolated_inference import infer_in_child
from mcm_compiler.ir.limits import check_value_sizes
from mcm_compiler.ir.map_types import MapType, model_from_proto
from mcm_compiler.ir.writer import (
    DataLocation,
    proto_with_references,
    total_tensor_bytes,
    write_model,
)
from mcm_compiler.runtime_values import UNCONVERTED_TYPES
from mcm_compiler.units import bytes_text

MAX_PROPAGATED_BYTES = 1024
"""Weights up to this size take part in onnx's inference with their values."""

MAX_RUN_BYTES = 4 << 30
"""Weights, inputs and largest known activation beyond which no model is run to learn shapes."""


def infer_shapes(model: ir.Model) -> list[Diagnostic]:
    """Completes types and shapes of the main graph's values in place.

    Shapes of intermediate values that are not static are dropped first, because they may name
    dimensions that have a size by now. What onnx's inference leaves open is learnt from one run
    in onnxruntime with the open values as outputs. A shape from that run is static where it
    cannot depend on data (`fixed_shapes`), and otherwise symbolic with an estimated size
    (`estimated_dims`): the upper bound where one is known, or the size in this run.

    Returns:
        Notes and warnings: MCM-I040 for values that stay unknown, MCM-I041 for shapes that come
        from a run.

    Raises:
        CompileError: MCM-I032 where a declared type or shape contradicts the inferred one,
            MCM-I034 where a value is too large, MCM-I018 where onnx's inference crashes.
    """
    given = {*model.graph.inputs, *model.graph.initializers.values()}
    for value in _values(model):
        if value not in given and value.shape is not None and not value.shape.is_static():
            value.shape = None
    for value in model.graph.initializers.values():
        if value.const_value is not None:
            value.shape = ir.Shape(value.const_value.shape.numpy())
            value.dtype = value.const_value.dtype
    _infer_with_onnx(model)
    if faults := check_value_sizes(model):
        raise CompileError(faults)
    missing = _open_values(model)
    if not missing:
        return []
    fixed = fixed_shapes(model)
    reason = _run_for_shapes(model, missing, fixed)
    _bound_shapes(missing, fixed)
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
                f"the type or shape of {len(still)} values is unknown"
                f"{f' ({reason})' if reason else ''}; open dimensions count as 1",
                at=f"value {quote(still[0].name or '')}",
                hint="give sizes that the model runs with by --shape or --dim, or add a "
                "value_info with the type",
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
    """Values that matter and lack a type, or are tensors with a dimension that has no size."""
    return [v for v in _values(model) if _matters(v) and _is_open(v)]


def _is_open(value: ir.Value) -> bool:
    if not isinstance(value.type, ir.TensorType):
        return value.type is None
    return value.shape is None or any(
        not isinstance(dim, int) and not is_estimated(dim) for dim in value.shape
    )


def _inferred(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """What onnx infers; None where it cannot read the model, and the run tells the rest."""
    try:
        return infer_in_child(proto, strict=True)
    except onnx.shape_inference.InferenceError as error:
        if faults := contradictions(str(error)):
            raise CompileError(faults) from None
    try:
        return infer_in_child(proto, strict=False)
    except onnx.shape_inference.InferenceError:
        return None


def _infer_with_onnx(model: ir.Model) -> None:
    """Onnx's inference with data propagation; large weights take part by type and shape alone.

    `onnx_ir` has a pass for it, which makes tensors of sequences and optionals.
    """
    proto = proto_with_references(
        model,
        lambda tensor: (
            DataLocation("weights", 0, tensor.nbytes)
            if tensor.nbytes > MAX_PROPAGATED_BYTES
            else None
        ),
    )
    inferred = _inferred(proto)
    if inferred is None:
        return
    del proto
    for graph, typed in zip(model.graphs(), model_from_proto(inferred).graphs(), strict=True):
        known = {v.name: v for node in typed for v in node.outputs}
        known |= {v.name: v for v in (*typed.inputs, *typed.outputs)}
        mine = [v for node in graph for v in node.outputs]
        if graph is not model.graph:
            mine.extend(graph.inputs)
        for value in mine:
            if value.name and (found := known.get(value.name)) is not None:
                if found.type is not None and found.dtype is not ir.DataType.UNDEFINED:
                    value.type = found.type
                if found.shape is not None:
                    value.shape = found.shape


def _run_for_shapes(model: ir.Model, missing: list[ir.Value], fixed: set[ir.Value]) -> str | None:
    """Sets what one run tells; leaves the model as it is where onnxruntime refuses it.

    Types are known even where the run itself fails.

    Returns:
        Why there was no run, or None.
    """
    run_bytes = _run_bytes(model)
    if run_bytes > MAX_RUN_BYTES:
        return f"a run to learn it would take {bytes_text(run_bytes)} of memory"
    outputs = {v.name for v in model.graph.outputs}
    names = [v.name or "" for v in missing]
    with tempfile.TemporaryDirectory(prefix="mcmc-shapes-") as folder:
        path = Path(folder) / "model.onnx"
        write_model(model, path)
        proto = onnx.load(path, load_external_data=False)
        proto.ClearField("metadata_props")
        for name in names:
            if name not in outputs:
                proto.graph.output.add().name = name
        path.write_bytes(proto.SerializeToString())
        try:
            session = open_session(path)
        except CompileError as error:
            return error.diagnostics[0].message
        kinds = {o.name: o.type for o in session.get_outputs()}
        results: dict[str, Any] = {}
        reason = None
        for fill in FILLS:
            try:
                results = run_session(session, random_inputs(model, 0, fill), names)
                reason = None
                break
            except CompileError as error:
                reason = reason or error.diagnostics[0].message
    for value in missing:
        name = value.name or ""
        _learn_type(value, kinds[name])
        shape = getattr(results.get(name), "shape", None)
        if shape is not None and isinstance(value.type, ir.TensorType):
            _learn_shape(value, shape, value in fixed)
    return reason


def _run_bytes(model: ir.Model) -> int:
    """Weights, inputs and the largest known activation, as far as shapes are known."""
    activations = max((_known_bytes(v) for v in _values(model)), default=0)
    inputs = sum(map(_known_bytes, free_inputs(model)))
    return total_tensor_bytes(model) + inputs + activations


def _known_bytes(value: ir.Value) -> int:
    if value.shape is None or value.dtype is None or value.dtype is ir.DataType.STRING:
        return 0
    return math.ceil(math.prod(map(dim_size, value.shape)) * value.dtype.itemsize)


def _bound_shapes(values: list[ir.Value], fixed: set[ir.Value]) -> None:
    for value in values:
        node = value.producer()
        if value in fixed or node is None or value.index() != 0:
            continue
        bound = upper_bound(node)
        if bound is not None and (value.shape is None or len(value.shape) == len(bound)):
            if value.type is None:
                value.type = ir.TensorType(ir.DataType.INT64)
            _learn_shape(value, bound, fixed=False)


def _learn_shape(value: ir.Value, sizes: Sequence[int], fixed: bool) -> None:
    old = value.shape
    value.shape = ir.Shape(
        [
            size
            if fixed or (old is not None and len(old) == len(sizes) and old[axis] == size)
            else estimated_dim(value.name or "", axis, size)
            for axis, size in enumerate(sizes)
        ]
    )


def _learn_type(value: ir.Value, kind: str) -> None:
    """Takes a type from the runtime's text for it, such as `seq(tensor(float))`."""
    learnt = _parse_type(kind)
    if learnt is not None:
        value.type = learnt


def _parse_type(kind: str) -> ir.TypeProtocol | None:
    for prefix, wrap in (("seq(", ir.SequenceType), ("optional(", ir.OptionalType)):
        if kind.startswith(prefix):
            inner = _parse_type(kind[len(prefix) : -1])
            return wrap(inner) if inner is not None else None
    if kind.startswith("map("):
        key, _, values = kind[len("map(") : -1].partition(",")
        inner = _parse_type(values)
        return MapType(_DTYPES[key], inner) if inner is not None and key in _DTYPES else None
    dtype = _DTYPES.get(kind.removeprefix("tensor(").removesuffix(")"))
    return ir.TensorType(dtype) if dtype is not None and kind.startswith("tensor(") else None


_DTYPES = {
    "float": ir.DataType.FLOAT,
    "double": ir.DataType.DOUBLE,
    "float16": ir.DataType.FLOAT16,
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
    **UNCONVERTED_TYPES,
}
