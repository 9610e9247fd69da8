"""From an ONNX file to a checked, shaped `onnx_ir` model with every node named."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution.npz_inputs import GivenInputs, check_inputs
from mcm_compiler.graph.constants import graphs_of, subgraphs
from mcm_compiler.graph.dimensions import bind_dimensions, shared_names
from mcm_compiler.graph.invariants import unwritable_texts
from mcm_compiler.graph.limits import check_value_sizes
from mcm_compiler.graph.map_types import model_from_proto
from mcm_compiler.graph.source import SOURCE, SourceModel
from mcm_compiler.graph.structure import all_nodes, check_structure
from mcm_compiler.ir.reading import external_data
from mcm_compiler.ir.reading.copying import clone, copied
from mcm_compiler.ir.reading.declared_types import check_declared_types
from mcm_compiler.ir.reading.function_calls import (
    check_functions,
    drop_overruled_functions,
    inline_functions,
)
from mcm_compiler.ir.reading.op_schemas import check_ops
from mcm_compiler.ir.reading.opset_conversion import lower_opset
from mcm_compiler.ir.reading.text_fields import check_text
from mcm_compiler.ir.reading.versions import check_versions
from mcm_compiler.ir.rewriting import writer
from mcm_compiler.ir.rewriting.naming import name_nodes, name_outputs
from mcm_compiler.ir.rewriting.running_statistics import separate_running_statistics
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_compiler.ir.shapes.open_sizes import check_caches, context_sizes
from mcm_compiler.ir.shapes.packed_sizes import check_packed_weights
from mcm_compiler.processes.garbage import collector_paused
from mcm_compiler.text.file_kinds import HEAD_BYTES, kind_of

MAX_PROTO_BYTES = (1 << 31) - 1
_NAN_CHUNK = 1 << 22


@collector_paused()
def import_onnx(
    path: Path,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    given: GivenInputs | None = None,
    *,
    context: int | None = None,
) -> tuple[ir.Model, list[Diagnostic]]:
    """Reads an ONNX file.

    External data stays memory-mapped. `Constant` nodes become initializers in the result; the
    graph as it was is kept in its `SOURCE` fact.

    Args:
        path: the file; external data is in its folder.
        dims: sizes of symbolic dimensions.
        shapes: full shapes of inputs.
        given: the user's own inputs, which shapes are learnt from where they depend on values;
            they bind the dimensions of theirs.
        context: as in `context_sizes`; None leaves lengths of caches to `dims`.

    Returns:
        The model and warnings and notes about it.

    Raises:
        CompileError: with all faults of the first stage that found any (MCM-I###).
    """
    proto = parse_file(path)
    data_files = external_data.external_files(proto)
    model, notes = _model_of(proto, path)
    del proto
    digest = _hash_files(path, data_files)
    model, more = _prepare(
        model, str(path), path, digest, dims=dims or {}, shapes=shapes or {}, given=given,
        context=context,
    )  # fmt: skip
    return model, [*notes, *more]


@collector_paused()
def read_open_model(path: Path) -> ir.Model:
    """Reads an ONNX file and leaves its symbolic dimensions open; shapes are not inferred.

    Nodes are sorted and named, and functions inlined, as in `import_onnx`.

    Raises:
        CompileError: as `import_onnx`, for what it refuses before dimensions get a size.
    """
    model, _ = _model_of(parse_file(path), path)
    sort_nodes(model)
    name_outputs(model)
    inline_functions(model)
    name_nodes(model)
    return model


def _model_of(proto: onnx.ModelProto, path: Path) -> tuple[ir.Model, list[Diagnostic]]:
    """The checked model of a file, and notes; `proto` is changed in place."""
    notes = _check_proto(proto)
    _raise_errors(external_data.check_tensors(proto, path))
    external_data.name_real_files(proto, path)
    _raise_errors(external_data.expand_sparse_weights(proto))
    try:
        model = model_from_proto(proto)
    except Exception as error:  # deserialisation raises many types on malformed fields
        raise CompileError.of(
            "MCM-I003",
            f"the graph cannot be read: {' '.join(str(error).split())[:300]}",
            at=str(path),
            hint="the file is damaged; export it again",
        ) from error
    return model, notes


@collector_paused()
def import_model(
    model: ir.Model,
    name: str,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    given: GivenInputs | None = None,
    *,
    context: int | None = None,
) -> tuple[ir.Model, list[Diagnostic]]:
    """Takes a model that is in memory already; the given one is left unchanged.

    Raises:
        CompileError: as `import_onnx`.
    """
    model = copied(model)
    external_data.settle_external_attributes(model)
    name_outputs(model)
    # The hash takes weights one by one; in the proto all of them would be in memory at once.
    proto = _proto_of(model)
    notes = _check_proto(proto, renumber_only=True)
    _take_opsets(model, proto)
    digest = hashlib.sha256(proto.SerializeToString(deterministic=True))
    for value in writer.initializers_of(model):
        if value.const_value is not None:
            digest.update(hashlib.sha256(_bytes_of(value.const_value, value)).digest())
            writer.release(value.const_value)
    model, more = _prepare(
        model, name, None, digest.hexdigest(), dims=dims or {}, shapes=shapes or {}, given=given,
        context=context,
    )  # fmt: skip
    return model, [*notes, *more]


def _proto_of(model: ir.Model) -> onnx.ModelProto:
    """A model as a file would hold it, with its weights elsewhere.

    Raises:
        CompileError: MCM-I003 for what no file can hold, such as a name that is no text.
    """
    try:
        return writer.proto_with_references(
            model, lambda tensor: writer.DataLocation("weights", 0, tensor.nbytes)
        )
    except ir.serde.SerdeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        texts = unwritable_texts(model)
        reason = f"{texts[0]!a} is no text" if texts else " ".join(str(cause).split())[:300]
        raise CompileError.of(
            "MCM-I003",
            f"no file can hold the model: {reason}",
            at=f"graph {quote(str(model.graph.name or ''))}",
            hint="names and properties are texts, and attributes of the kinds that ONNX has; "
            "onnx_ir.to_proto says where it fails",
        ) from error


def _bytes_of(tensor: ir.TensorProtocol, value: ir.Value) -> bytes:
    """The bytes of a weight.

    Raises:
        CompileError: MCM-I020 where its file cannot be read.
    """
    if isinstance(tensor, ir.StringTensor):  # whose bytes onnx_ir does not give
        return repr(list(tensor.string_data())).encode()
    try:
        return tensor.tobytes()
    except OSError as error:
        location = tensor.location if isinstance(tensor, ir.ExternalTensor) else error.filename
        raise CompileError.of(
            "MCM-I020",
            f"the external data file {quote(str(location))} cannot be read: {error.strerror}",
            at=f"weight {quote(value.name or '')}",
            hint="give the tensor a base_dir in which the file lies",
        ) from error


def _take_opsets(model: ir.Model, proto: onnx.ModelProto) -> None:
    """Has a model the opsets and functions of its proto, which has been checked and completed."""
    model.graph.opset_imports.update({e.domain: e.version for e in proto.opset_import})
    for function in proto.functions:
        own = model.functions[function.domain, function.name, function.overload]
        own.opset_imports.update({e.domain: e.version for e in function.opset_import})
    called = {(f.domain, f.name, f.overload) for f in proto.functions}
    for key in [key for key in model.functions if key not in called]:
        del model.functions[key]


def _check_proto(proto: onnx.ModelProto, *, renumber_only: bool = False) -> list[Diagnostic]:
    """All checks that need the file's own text; drops what says nothing, see each of them.

    Args:
        proto: checked, and brought to versions that onnxruntime loads.
        renumber_only: as `lower_opset` has it.

    Returns:
        Notes.

    Raises:
        CompileError: with all faults of the first stage that found any.
    """
    _raise_errors(check_text(proto))
    found = check_versions(proto)
    if not any(fault.severity is Severity.ERROR for fault in found):
        found += drop_overruled_functions(proto)
    _raise_errors([*found, *check_structure(proto.graph), *check_functions(proto)])
    _raise_errors(check_ops(proto) + check_declared_types(proto))
    found += lower_opset(proto, renumber_only=renumber_only)
    # Where a source model was to run is not where it will run.
    del proto.configuration[:]
    for body in (proto.graph, *proto.functions):
        for node in all_nodes(body):
            del node.device_configurations[:]
    return found


def _raise_errors(faults: list[Diagnostic]) -> None:
    if any(fault.severity is Severity.ERROR for fault in faults):
        raise CompileError(faults)


def _prepare(
    model: ir.Model,
    name: str,
    path: Path | None,
    sha256: str,
    *,
    dims: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    given: GivenInputs | None,
    context: int | None,
) -> tuple[ir.Model, list[Diagnostic]]:
    """Binds dimensions, sorts, names, shapes and keeps the source, for any origin of a model."""
    notes: list[Diagnostic] = []
    arrays: Mapping[str, Any] = {}
    if given is not None:
        arrays = check_inputs(model, given.arrays, given.origin, shapes)
        shapes = {name: array.shape for name, array in arrays.items()} | dict(shapes)
    if context is not None:
        dims = context_sizes(model, context, dims)
    notes += shared_names(model, dims, shapes)
    declared = {v.name or "": v.shape for v in model.graph.inputs if v.shape is not None}
    promised = {v.name or "": v.shape for v in model.graph.outputs if v.shape is not None}
    bound = bind_dimensions(model, dims, shapes)
    _check_weights(model)
    if sort_nodes(model):
        notes.append(
            Diagnostic(
                "MCM-I042",
                "the nodes of the file are not in topological order; they were sorted",
                at=name,
            )
        )
    name_outputs(model)
    inline_functions(model)
    external_data.settle_external_attributes(model)
    name_nodes(model)
    notes += separate_running_statistics(model)
    _raise_errors(check_value_sizes(model))
    notes += infer_shapes(model, arrays, declared)
    notes += check_caches(model, promised, bound)
    check_packed_weights(model)
    original = clone(model)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if not any(value.producer() is not None for value in model.graph.outputs):
        raise CompileError.of(
            "MCM-I004", "no node makes a graph output, so there is nothing to place", at=name
        )
    shape_only = model.metadata_props.get(WEIGHTS_KEY) == SHAPE_ONLY
    SOURCE.set(model, SourceModel(name, path, sha256, original, bound, shape_only, arrays, shapes))
    return model, notes


def parse_file(path: Path) -> onnx.ModelProto:
    """The model of a file as it is, unchecked; external data is not read.

    Raises:
        CompileError: MCM-I001, MCM-I002, MCM-I003 or MCM-I006 if it is no ONNX model.
    """

    def refuse(code: str, message: str, hint: str | None = None) -> CompileError:
        return CompileError.of(code, message, at=str(path), hint=hint)

    try:
        if not path.exists():
            raise refuse(
                "MCM-I001",
                "the model file does not exist",
                "name an .onnx file, or zoo:NAME; `mcmc zoo` lists the names",
            )
        if not path.is_file():
            raise refuse("MCM-I001", "the model path is not a file", "name the .onnx file itself")
        size = path.stat().st_size
        if size == 0:
            raise refuse("MCM-I002", "the model file is empty (0 bytes)")
        if size > MAX_PROTO_BYTES:
            with path.open("rb") as stream:
                kind = kind_of(stream.read(HEAD_BYTES))
            if kind is not None:
                raise refuse("MCM-I003", f"the file is {kind[0]}, not an ONNX model", kind[1])
            raise refuse(
                "MCM-I006", f"the file has {size} bytes, and protobuf ends at {MAX_PROTO_BYTES}"
            )
        data = path.read_bytes()
    except OSError as error:
        raise refuse(
            "MCM-I001",
            f"the model file cannot be read: {error.strerror}",
            "check its name and permissions",
        ) from error
    proto = onnx.ModelProto()
    hint, reason = "mcmc reads binary protobuf as written by onnx.save", ""
    try:
        proto.ParseFromString(data)
    except DecodeError:
        reason = f"the file is not an ONNX model, or is cut short after {size} bytes"
    if not reason and (not proto.HasField("graph") or proto.ir_version <= 0):
        reason = "the file parses as protobuf but holds no ONNX graph or IR version"
    if not reason:
        return proto
    kind = kind_of(data[:HEAD_BYTES])
    if kind is not None:
        raise refuse("MCM-I003", f"the file is {kind[0]}, not an ONNX model", kind[1] or hint)
    raise refuse("MCM-I003", reason, hint)


def _hash_files(path: Path, data_files: list[str]) -> str:
    digest = hashlib.sha256()
    for file in (path, *(path.absolute().parent / name for name in data_files)):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def sort_nodes(model: ir.Model) -> bool:
    """Sorts a model and the bodies of its ops topologically.

    Returns:
        Whether that changed the order of the main graph.

    Raises:
        ValueError: where ops wait for each other.
    """
    before = list(model.graph)
    if _is_plain_and_sorted(before):
        return False
    for graph in graphs_of(model):
        graph.sort()
    return any(a is not b for a, b in zip(before, model.graph, strict=True))


def _is_plain_and_sorted(nodes: list[ir.Node]) -> bool:
    """Return whether `nodes`, none of which holds a graph, stand after what they read."""
    later = set(nodes)
    for node in nodes:
        if subgraphs(node):
            return False
        if any(value is not None and value.producer() in later for value in node.inputs):
            return False
        later.discard(node)
    return True


def _check_weights(model: ir.Model) -> None:
    """Refuses NaN in weights: no output would mean anything.

    Infinities pass, because attention masks hold them; so do scalars, which may be sentinels.
    """
    faults: list[Diagnostic] = []
    for value in writer.initializers_of(model):
        tensor = value.const_value
        if tensor is None or not tensor.dtype.is_floating_point() or tensor.size < 2:
            continue
        if isinstance(tensor, ir.LazyTensor):
            continue  # made by a builder of ours, and not yet computed
        flat = tensor.numpy().reshape(-1)
        bad = sum(
            int(np.isnan(flat[i : i + _NAN_CHUNK]).sum()) for i in range(0, flat.size, _NAN_CHUNK)
        )
        del flat
        writer.release(tensor)
        if bad:
            faults.append(
                Diagnostic(
                    "MCM-I024",
                    f"{bad} of {tensor.size} elements are NaN",
                    at=f"weight {quote(value.name or '')}",
                )
            )
    CompileError.raise_any(faults)
