"""The user's own model, read once more for `check --model`: nothing of the folder is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.execution.npz_inputs import GivenInputs
from mcm_compiler.graph.map_types import model_from_proto
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.ir.reading.declared_types import check_declared_types
from mcm_compiler.ir.reading.external_data import check_tensors, name_real_files
from mcm_compiler.ir.reading.importer import import_model, import_onnx, sort_nodes
from mcm_compiler.ir.reading.opset_conversion import lower_opset
from mcm_compiler.ir.reading.overruled_functions import drop_overruled_functions
from mcm_compiler.ir.reading.sparse_weights import expand_sparse_weights
from mcm_compiler.ir.reading.versions import complete_imports


@dataclass(frozen=True, eq=False)
class UserModel:
    """A model as a folder was compiled from it.

    Attributes:
        name: what the user called it.
        sha256: as the manifest records it.
        raw: what the file or the builder gives, before the importer touched it.
        imported: with the recorded sizes bound, every shape found and functions inlined.
    """

    name: str
    sha256: str
    raw: ir.Model
    imported: ir.Model


def read_user_model(name: str, manifest: Manifest, given: GivenInputs | None = None) -> UserModel:
    """Reads a file, or builds a model of the zoo, with the sizes that the manifest records.

    Args:
        name: path, or `zoo:NAME`.
        manifest: of the folder.
        given: the user's own inputs, for shapes that depend on values.

    Raises:
        CompileError: as a compile of the model.
    """
    if name.startswith(zoo.PREFIX):
        raw = zoo.build_zoo_model(name.removeprefix(zoo.PREFIX))
        compiled, _ = import_model(raw, name, manifest.dims, manifest.shapes, given)
    else:
        compiled, _ = import_onnx(Path(name), manifest.dims, manifest.shapes, given)
        raw = read_raw(Path(name))
    source = SOURCE.get(compiled)
    return UserModel(name, source.sha256, raw, source.original)


def read_raw(path: Path) -> ir.Model:
    """A file as it is, but for sparse weights, which become dense, and the order of its nodes.

    Declared types that say nothing are left out, opsets that onnxruntime implies are imported, and
    one that is newer than it loads is converted, as in an import of the file.

    Raises:
        CompileError: MCM-I003 for a file that is no model, MCM-I005 for an opset that cannot be
            converted, MCM-I02# for faulty weights.
    """
    return raw_model(read_raw_proto(path), path)


def read_raw_proto(path: Path) -> onnx.ModelProto:
    """The text of a file, as `read_raw` takes it.

    Raises:
        CompileError: as `read_raw`.
    """
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
        # What an import does to the text of a file, or else it could not be read.
        complete_imports(proto)
        check_declared_types(proto)
        drop_overruled_functions(proto)
        lower_opset(proto)
        if faults := check_tensors(proto, path):
            raise CompileError(faults)
        name_real_files(proto, path)
        expand_sparse_weights(proto)
    except (OSError, DecodeError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from error
    return proto


def raw_model(proto: onnx.ModelProto, path: Path) -> ir.Model:
    """The model of `read_raw_proto`.

    Raises:
        CompileError: MCM-I003 if it is none.
    """
    try:
        model = model_from_proto(proto)
        sort_nodes(model)
    except (ValueError, TypeError) as error:
        raise _unreadable(path, error) from error
    return model


def _unreadable(path: Path, error: Exception) -> CompileError:
    reason = " ".join(str(error).split())[:300]
    return CompileError(Diagnostic("MCM-I003", f"the model cannot be read: {reason}", at=str(path)))
