"""Shapes that only onnxruntime knows: by its inference when it loads a model, or by one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import fills_of, random_inputs
from mcm_compiler.execution.runner import RunStoppedError, open_session, run_session
from mcm_compiler.execution.runtime_values import UNCONVERTED_TYPES
from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.graph.estimated_dims import estimated_dim, upper_bound
from mcm_compiler.graph.limits import MAX_RUN_BYTES, known_bytes, run_bytes
from mcm_compiler.graph.map_types import MapType
from mcm_compiler.graph.structure import all_graphs
from mcm_compiler.ir.rewriting.writer import total_tensor_bytes, write_model
from mcm_compiler.ir.shapes.open_sizes import impossible_sizes
from mcm_compiler.processes.private_folders import private_folder
from mcm_compiler.text.units import bytes_text

MAX_WEIGHT_BYTES = 4 << 30
"""Weights beyond which no model is run to learn shapes; activations have the limit of runs that
verify (`MAX_RUN_BYTES`). A file of few bytes can declare inputs of any size."""


@dataclass(frozen=True, eq=False)
class RunFindings:
    """Findings of one run of the original.

    Attributes:
        types: by name what onnxruntime says of each value once the model is loaded.
        results: runtime values by name; empty where no run succeeded.
        reason: why nothing, or nothing but types, was learnt; None where a run succeeded.
        refused: whether onnxruntime does not run the model, on no input that was tried.
    """

    types: Mapping[str, Any]
    results: Mapping[str, Any]
    reason: str | None
    refused: bool = False


class FileRuns:
    """Runs of a model as its file has it, without a shape that inference or the file claims.

    Args:
        model: in topological order; left unchanged.
        given: runtime values by graph input; random ones where None or where it lacks one.
        declared: shapes of graph inputs in the file, for a model that onnxruntime refuses with the
            sizes that are bound; None where no file is imported.

    Attributes:
        reason: why nothing, or nothing but types, was learnt; None where no run failed.
        too_large: whether that is because a run would take too much memory.
        results_found: whether a run succeeded.
        needs_open_sizes: whether onnxruntime takes the model only with its inputs as declared.
    """

    def __init__(
        self,
        model: ir.Model,
        given: Mapping[str, Any] | None = None,
        declared: Mapping[str, ir.Shape] | None = None,
    ) -> None:
        self._model = model
        self.given = dict(given or {})
        self._importing = declared is not None
        self._declared = declared or {}
        self.reason: str | None = None
        self.too_large = False
        self.results_found = False
        self.needs_open_sizes = False

    def observe(self, wanted: Sequence[ir.Value]) -> RunFindings:
        """Runs the model once with `wanted`, values of the main graph, as outputs.

        Within limits of memory and computing time.

        Raises:
            CompileError: MCM-I058 where an import's run fails in an op that fails for its sizes,
                whatever the data.
        """
        found = self._observe(wanted)
        self.reason = found.reason
        self.results_found |= bool(found.results)
        return found

    def loads_as_found(self) -> bool:
        """Return whether onnxruntime takes the model with the found shapes, as chips have them.

        It follows them into bodies, which may make no sense for them.
        """
        if not self.results_found or not any(subgraphs(node) for node in self._model.graph):
            return True
        with private_folder(None) as folder:
            write_model(self._model, folder / "model.onnx")
            try:
                open_session(folder / "model.onnx")
            except CompileError:
                return False
        return True

    def _observe(self, wanted: Sequence[ir.Value]) -> RunFindings:
        model = self._model
        weights = total_tensor_bytes(model)
        live = run_bytes(model, 1) + sum(map(known_bytes, wanted))
        self.too_large = weights > MAX_WEIGHT_BYTES or live > MAX_RUN_BYTES
        if self.too_large:
            reason = f"a run to learn it would take {bytes_text(weights + live)} of memory"
            return RunFindings({}, {}, reason)
        names = [v.name or "" for v in wanted]
        with private_folder(None) as folder:
            path = folder / "model.onnx"
            write_model(model, path)
            try:
                session = self._session(path, names)
            except CompileError as error:
                self._refuse_sizes(error)
                return RunFindings({}, {}, error.diagnostics[0].message, refused=True)
            types = {o.name: o for o in session.get_outputs()}
            first: CompileError | None = None
            for fill in fills_of(model):
                feeds = random_inputs(model, 0, fill) | self.given
                try:
                    return RunFindings(types, run_session(session, feeds, names), None)
                except CompileError as error:
                    first = first or error
                    if isinstance(error, RunStoppedError):
                        break
        if first is None:
            return RunFindings(types, {}, None)
        stopped = isinstance(first, RunStoppedError)
        if not stopped:
            self._refuse_sizes(first)
        return RunFindings(types, {}, first.diagnostics[0].message, refused=not stopped)

    def _refuse_sizes(self, failure: CompileError) -> None:
        reason = failure.diagnostics[0].message
        if self._importing and (fault := impossible_sizes(self._model, reason)) is not None:
            raise CompileError(fault) from failure

    def _session(self, path: Path, names: Sequence[str]) -> Any:
        """A session of a written model with further outputs, without claims about shapes."""
        proto = onnx.load(path, load_external_data=False)
        proto.ClearField("metadata_props")
        _drop_claims(proto)
        outputs = {output.name for output in proto.graph.output}
        for name in names:
            if name not in outputs:
                proto.graph.output.add().name = name
        path.write_bytes(proto.SerializeToString())
        try:
            return open_session(path)
        except CompileError:
            if all(shape.is_static() for shape in self._declared.values()):
                raise
        for info in proto.graph.input:
            if (shape := self._declared.get(info.name)) is not None:
                info.type.tensor_type.ClearField("shape")
                ir.serde.serialize_shape_into(info.type, shape)
        path.write_bytes(proto.SerializeToString())
        session = open_session(path)
        self.needs_open_sizes = True
        return session


def _drop_claims(proto: onnx.ModelProto) -> None:
    """Leaves types and shapes of all that ops make to onnxruntime, in place."""
    for graph in all_graphs(proto.graph):
        del graph.value_info[:]
        for output in graph.output:
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")


def learn_from_run(
    model: ir.Model,
    runs: FileRuns,
    missing: list[ir.Value],
    fixed: set[ir.Value],
    open_ranks: set[ir.Value],
) -> None:
    """Sets what one run finds; leaves the model as it is where onnxruntime refuses it.

    Types are known even where the run itself fails.

    Args:
        model: in topological order.
        runs: of the model.
        missing: values to learn about.
        fixed: those whose shape is the same in every run.
        open_ranks: those of which a run finds the type alone.
    """
    seen = runs.observe(missing)
    for value in missing if seen.types else ():
        name = value.name or ""
        _learn_type(value, seen.types[name].type)
        if not isinstance(value.type, ir.TensorType):
            continue
        inferred = seen.types[name].shape  # without a rank it is empty as well
        shape = getattr(seen.results.get(name), "shape", inferred or None)
        if value in open_ranks and not inferred:
            continue
        if shape is not None and all(isinstance(size, int) and size >= 0 for size in shape):
            learn_shape(value, shape, value in fixed or list(shape) == inferred)


def bound_shapes(values: list[ir.Value], fixed: set[ir.Value]) -> None:
    """Plans with the largest shape where the op of a value gives it (`upper_bound`)."""
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
