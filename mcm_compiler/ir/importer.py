"""From an ONNX file to a checked, shaped `onnx_ir` model with every node named."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.ir.constants import placeable_nodes
from mcm_compiler.ir.dimensions import bind_dimensions
from mcm_compiler.ir.external_data import check_tensors, external_files
from mcm_compiler.ir.naming import name_nodes
from mcm_compiler.ir.shapes import infer_shapes
from mcm_compiler.ir.source import SOURCE, SourceModel
from mcm_compiler.ir.structure import check_structure
from mcm_compiler.ir.versions import check_versions
from mcm_compiler.ir.writer import initializers_of, release
from mcm_compiler.zoo import SHAPE_ONLY, WEIGHTS_KEY

MAX_PROTO_BYTES = (1 << 31) - 1
_NAN_CHUNK = 1 << 22


def import_onnx(
    path: Path,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[ir.Model, list[Diagnostic]]:
    """Reads an ONNX file.

    External data stays memory-mapped. `Constant` nodes become initializers in the result; the
    graph as it was is kept in its `SOURCE` fact.

    Args:
        path: the file; external data lies in its folder.
        dims: sizes of symbolic dimensions.
        shapes: full shapes of inputs.

    Returns:
        The model and warnings and notes about it.

    Raises:
        CompileError: with all faults of the first stage that found any (MCM-I###).
    """
    proto = _parse(path)
    faults = check_versions(proto) + check_structure(proto.graph)
    faults += check_tensors(proto, path.absolute().parent)
    if any(f.severity is Severity.ERROR for f in faults):
        raise CompileError(faults)
    digest = _hash_files(path, external_files(proto))
    try:
        model = ir.from_proto(proto)
    except Exception as error:  # deserialisation raises many types on malformed fields
        raise CompileError(
            Diagnostic(
                "MCM-I003",
                f"the graph cannot be read: {' '.join(str(error).split())[:300]}",
                at=str(path),
                hint="the file is damaged; export it again",
            )
        ) from error
    del proto
    ir.external_data.set_base_dir(model.graph, path.absolute().parent)
    model, notes = _prepare(model, str(path), path, digest, dims=dims or {}, shapes=shapes or {})
    return model, [*faults, *notes]


def import_model(
    model: ir.Model,
    name: str,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[ir.Model, list[Diagnostic]]:
    """Takes a model that is in memory already; the given one is left unchanged.

    Raises:
        CompileError: as `import_onnx`.
    """
    model = model.clone()
    proto = ir.to_proto(_without_weights(model))
    faults = check_versions(proto) + check_structure(proto.graph)
    if any(f.severity is Severity.ERROR for f in faults):
        raise CompileError(faults)
    digest = hashlib.sha256(proto.SerializeToString(deterministic=True))
    for value in initializers_of(model):
        if value.const_value is not None:
            digest.update(hashlib.sha256(value.const_value.tobytes()).digest())
            release(value.const_value)
    model, notes = _prepare(
        model, name, None, digest.hexdigest(), dims=dims or {}, shapes=shapes or {}
    )
    return model, [*faults, *notes]


def _prepare(
    model: ir.Model,
    name: str,
    path: Path | None,
    sha256: str,
    *,
    dims: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[ir.Model, list[Diagnostic]]:
    """Binds dimensions, sorts, names, shapes and keeps the source, for any origin of a model."""
    notes: list[Diagnostic] = []
    bound = bind_dimensions(model, dims, shapes)
    _check_weights(model)
    if _sort(model):
        notes.append(
            Diagnostic(
                "MCM-I042",
                "the nodes of the file are not in topological order; they were sorted",
                at=name,
                severity=Severity.NOTE,
            )
        )
    name_nodes(model)
    notes += infer_shapes(model)
    original = model.clone()
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if not placeable_nodes(model.graph):
        raise CompileError(
            Diagnostic(
                "MCM-I004",
                "no node depends on an input or makes an output, so there is nothing to place",
                at=name,
                hint="the export folded everything into constants, or lost its inputs",
            )
        )
    shape_only = model.metadata_props.get(WEIGHTS_KEY) == SHAPE_ONLY
    SOURCE.set(model, SourceModel(name, path, sha256, original, bound, shape_only))
    return model, notes


def _parse(path: Path) -> onnx.ModelProto:
    def refuse(code: str, message: str, hint: str | None = None) -> CompileError:
        return CompileError(Diagnostic(code, message, at=str(path), hint=hint))

    if not path.exists():
        raise refuse(
            "MCM-I001",
            "the model file does not exist",
            "name an .onnx file, or zoo:NAME; `mcmc zoo` lists the names",
        )
    if not path.is_file():
        raise refuse("MCM-I001", "the model path is not a file", "name the .onnx file itself")
    try:
        size = path.stat().st_size
        if size == 0:
            raise refuse("MCM-I002", "the model file is empty (0 bytes)", "export it again")
        if size > MAX_PROTO_BYTES:
            raise refuse(
                "MCM-I006",
                f"the file has {size} bytes, and protobuf ends at {MAX_PROTO_BYTES}",
                "save the model with external data",
            )
        data = path.read_bytes()
    except OSError as error:
        raise refuse(
            "MCM-I001", f"the model file cannot be read: {error.strerror}", "check its permissions"
        ) from error
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise refuse(
            "MCM-I003",
            f"the file is not an ONNX model, or is cut short after {size} bytes",
            "mcmc reads binary protobuf as written by onnx.save",
        ) from None
    if not proto.HasField("graph") or proto.ir_version <= 0:
        raise refuse(
            "MCM-I003",
            "the file parses as protobuf but holds no ONNX graph or IR version",
            "mcmc reads binary protobuf as written by onnx.save",
        )
    return proto


def _hash_files(path: Path, data_files: list[str]) -> str:
    digest = hashlib.sha256()
    for file in (path, *(path.absolute().parent / name for name in data_files)):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _sort(model: ir.Model) -> bool:
    before = list(model.graph)
    for graph in model.graphs():
        graph.sort()
    return any(a is not b for a, b in zip(before, model.graph, strict=True))


def _check_weights(model: ir.Model) -> None:
    """Refuses NaN in weights: no output would mean anything.

    Infinities pass, because attention masks hold them; so do scalars, which may be sentinels.
    """
    faults: list[Diagnostic] = []
    for value in initializers_of(model):
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
        release(tensor)
        if bad:
            faults.append(
                Diagnostic(
                    "MCM-I024",
                    f"{bad} of {tensor.size} elements are NaN",
                    at=f"weight {quote(value.name or '')}",
                    hint="the training diverged or the export failed; repair the weights",
                )
            )
    if faults:
        raise CompileError(faults)


def _without_weights(model: ir.Model) -> ir.Model:
    bare = model.clone()
    for value in initializers_of(bare):
        tensor = value.const_value
        if tensor is not None:
            value.const_value = ir.ExternalTensor(
                "weights", 0, tensor.nbytes, tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()), name=value.name or "",
            )  # fmt: skip
    return bare
