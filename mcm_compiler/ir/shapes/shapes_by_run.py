"""Shapes that only onnxruntime tells: by its inference when it loads a model, or by one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import fills_of, random_inputs
from mcm_compiler.execution.runner import RunStoppedError, open_session, run_session
from mcm_compiler.execution.runtime_values import UNCONVERTED_TYPES
from mcm_compiler.graph.estimated_dims import estimated_dim, upper_bound
from mcm_compiler.graph.limits import known_bytes, run_bytes
from mcm_compiler.graph.map_types import MapType
from mcm_compiler.ir.rewriting.writer import total_tensor_bytes, write_model
from mcm_compiler.processes.private_folders import private_folder
from mcm_compiler.text.units import bytes_text

MAX_WEIGHT_BYTES = 4 << 30
MAX_LIVE_BYTES = 512 << 20
"""Weights, and inputs with activations at one time, beyond which no model is run to learn shapes.
A file of few bytes can declare inputs of any size."""


@dataclass(frozen=True, eq=False)
class RunFindings:
    """What one run of the original told.

    Attributes:
        told: by name what onnxruntime says of each value once the model is loaded.
        results: runtime values by name; empty where no run succeeded.
        reason: why nothing, or nothing but types, was learnt; None where a run succeeded.
        refused: whether onnxruntime does not run the model, on no input that was tried.
    """

    told: Mapping[str, Any]
    results: Mapping[str, Any]
    reason: str | None
    refused: bool = False


def observe(
    model: ir.Model, wanted: Sequence[ir.Value], given: Mapping[str, Any] | None = None
) -> RunFindings:
    """Runs a model once with `wanted` as outputs, within limits of memory and computing time.

    Args:
        model: in topological order; left unchanged.
        wanted: values of the main graph.
        given: runtime values by graph input; random ones where None or where it lacks one.
    """
    weights = total_tensor_bytes(model)
    live = run_bytes(model, 1) + sum(map(known_bytes, wanted))
    if weights > MAX_WEIGHT_BYTES or live > MAX_LIVE_BYTES:
        reason = f"a run to learn it would take {bytes_text(weights + live)} of memory"
        return RunFindings({}, {}, reason)
    outputs = {v.name for v in model.graph.outputs}
    names = [v.name or "" for v in wanted]
    with private_folder(None) as folder:
        path = folder / "model.onnx"
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
            return RunFindings({}, {}, error.diagnostics[0].message, refused=True)
        told = {o.name: o for o in session.get_outputs()}
        reason, stopped = None, False
        for fill in fills_of(model):
            feeds = random_inputs(model, 0, fill) | dict(given or {})
            try:
                return RunFindings(told, run_session(session, feeds, names), None)
            except CompileError as error:
                reason = reason or error.diagnostics[0].message
                if stopped := isinstance(error, RunStoppedError):
                    break
    return RunFindings(told, {}, reason, refused=not stopped)


def learn_from_run(
    model: ir.Model,
    missing: list[ir.Value],
    fixed: set[ir.Value],
    open_ranks: set[ir.Value],
    given: Mapping[str, Any] | None = None,
) -> str | None:
    """Sets what one run tells; leaves the model as it is where onnxruntime refuses it.

    Types are known even where the run itself fails.

    Args:
        model: in topological order.
        missing: values to learn about.
        fixed: those whose shape is the same in every run.
        open_ranks: those of which a run tells the type alone.
        given: the user's input, if there is one.

    Returns:
        Why there was no run, or None.
    """
    seen = observe(model, missing, given)
    for value in missing if seen.told else ():
        name = value.name or ""
        _learn_type(value, seen.told[name].type)
        if not isinstance(value.type, ir.TensorType):
            continue
        inferred = seen.told[name].shape  # without a rank it is empty as well
        shape = getattr(seen.results.get(name), "shape", inferred or None)
        if value in open_ranks and not inferred:
            continue
        if shape is not None and all(isinstance(size, int) and size >= 0 for size in shape):
            learn_shape(value, shape, value in fixed or list(shape) == inferred)
    return seen.reason


def bound_shapes(values: list[ir.Value], fixed: set[ir.Value]) -> None:
    """Plans with the largest shape where the op of a value tells it (`upper_bound`)."""
    for value in values:
        node = value.producer()
        if value in fixed or node is None or value.index() != 0:
            continue
        bound = upper_bound(node)
        if bound is not None and (value.shape is None or len(value.shape) == len(bound)):
            if value.type is None:
                value.type = ir.TensorType(ir.DataType.INT64)
            learn_shape(value, bound, fixed=False)


def learn_shape(value: ir.Value, sizes: Sequence[int], fixed: bool) -> None:
    """Sets a shape; where it is not `fixed`, sizes that are not known are open but planned with."""
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
