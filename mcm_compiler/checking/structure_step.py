"""Proof by structure of a folder: its chips, its annotated model, and the user's own file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import Manifest, folder_record
from mcm_compiler.checking.entry.structure_check import other_ends
from mcm_compiler.contracts import chips, target, zoo
from mcm_compiler.contracts.verification import StructureProof
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.equivalence.values.followed_passes import constant_bytes
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.execution.npz_inputs import GivenInputs
from mcm_compiler.graph.map_types import load_model, model_from_proto, model_in_folder
from mcm_compiler.graph.source import SOURCE, SourceModel
from mcm_compiler.ir.reading import external_data
from mcm_compiler.ir.reading.declared_types import check_declared_types
from mcm_compiler.ir.reading.function_calls import drop_overruled_functions
from mcm_compiler.ir.reading.importer import import_model, import_onnx, sort_nodes
from mcm_compiler.ir.reading.opset_conversion import lower_opset
from mcm_compiler.ir.reading.versions import complete_imports
from mcm_compiler.text.units import count_text

if TYPE_CHECKING:
    from mcm_compiler.checking.entry.gate import OpenedFolder

MAX_NAMED = 5
"""Ops that are named one by one."""

OpenPoints = frozenset[tuple[int, str]]
"""Chips and names; an output is one of the host."""


def prove_folder(opened: OpenedFolder, model: UserModel | None = None) -> StructureProof:
    """Compares the chips of a folder with its annotated model, and both with the user's.

    Args:
        opened: an output folder.
        model: the user's model; None takes the word of `annotated.onnx`.

    Raises:
        CompileError: MCM-V062 where `annotated.onnx` is not the user's model, MCM-V066 where the
            manifest has another hash of it; MCM-A005 and MCM-V068 as what it calls.
    """
    manifest, annotated = opened.manifest, opened.source
    source, contents = annotated, WeightContents()
    if model is not None:
        faults = _user_model_faults(manifest, annotated, model, contents)
        CompileError.raise_any(faults)
        source = model.imported
    proof = prove_chips(
        source,
        opened.chips,
        manifest.run_wires,
        manifest.round,
        placeholders=manifest.shape_only,
        unfollowed_passes=manifest.unfollowed_passes,
        contents=contents,
        max_constant_bytes=constant_bytes(manifest.pipeline),
    )
    return proof if model is None else replace(proof, model=Path(model.name).name)


def original_faults(
    original: ir.Model,
    annotated: ir.Model,
    name: str,
    facts: ir.Model,
    contents: WeightContents | None = None,
) -> list[Diagnostic]:
    """MCM-V062 where `annotated.onnx` is another model than the one in the user's file.

    Args:
        original: as the file has it.
        annotated: the model of `annotated.onnx`.
        name: what the user called the model.
        facts: the model as it was imported from the file.
        contents: of weights, where they were looked at before.
    """
    from mcm_compiler.equivalence.same_model import model_differences

    return [
        Diagnostic(
            "MCM-V062",
            f"{quote(layout.ANNOTATED)} is not the model {quote(Path(name).name)}: "
            f"{found.place} {found.what}",
            at=found.place,
        )
        for found in model_differences(original, annotated, contents, facts)[:MAX_NAMED]
    ]


def emitted_model(folder: Path, source: SourceModel) -> tuple[ir.Model, list[Diagnostic]]:
    """The model of `annotated.onnx`, compared with the user's file if it was read from one.

    Where both files are spelt alike the import has changed nothing: then it is the imported model,
    which takes a fraction of the time of reading both files and numbering their values.

    Args:
        folder: where it was emitted.
        source: that it was compiled from.

    Returns:
        The model, and MCM-V062 where it is another one than the user's.

    Raises:
        CompileError: as `read_raw`.
    """
    path = folder / layout.ANNOTATED
    if source.path is None:
        return load_model(path), []
    from mcm_compiler.equivalence.same_model import spelt_alike

    raw = read_raw_proto(source.path)
    text = onnx.load(path, load_external_data=False)
    alike = spelt_alike(raw, source.path.absolute().parent, text, folder)
    # A plan decides how exactly runs have to agree, and only the written model tells of it.
    planned = any(entry.key == chips.PLANNED_PROPERTY for entry in text.metadata_props)
    if alike and not planned:
        return source.original, []
    annotated = model_in_folder(text, folder)
    if alike:
        return annotated, []
    return annotated, original_faults(
        raw_model(raw, source.path), annotated, source.name, source.original
    )


def open_points(proof: StructureProof) -> OpenPoints:
    """Points that a proof leaves to runs: ops by chip and name, and outputs of the host."""
    ops = {(op.chip, op.node) for op in proof.unproven}
    return frozenset(ops | {(target.HOST, name) for name in proof.outputs})


@dataclass(frozen=True)
class _RecordedVerification:
    structure: StructureProof | None


@dataclass(frozen=True)
class _VerifiedReport:
    verification: _RecordedVerification | None = None


def recorded_points(opened: OpenedFolder) -> OpenPoints:
    """Points that the compile left to runs for want of a rule, as a folder's report says.

    A pass that has none is in the manifest instead.

    Raises:
        CompileError: MCM-A005 if the report says nothing that is a proof.
    """
    path = opened.path / layout.REPORT
    found = folder_record(path, opened.report, _VerifiedReport).verification
    proof = None if found is None else found.structure
    if proof is None or proof.unfollowed_passes:
        return frozenset()
    return open_points(proof)


def structure_faults(proof: StructureProof, recorded: OpenPoints = frozenset()) -> list[Diagnostic]:
    """MCM-V060 for each op and MCM-V061 for each output that nothing explains.

    Args:
        proof: of a folder.
        recorded: what the compile left to runs, as its report says; the proof has no rule for it.
    """
    if proof.unfollowed_passes or open_points(proof) <= recorded:
        return []
    ops = [
        Diagnostic(
            "MCM-V060",
            f"op {quote(op.node)} of chip {op.chip} {op.what}",
            at=f"chip {op.chip}, op {quote(op.node)} ({quote(op.op_type)[1:-1]})",
        )
        for op in proof.unproven
        if (op.chip, op.node) not in recorded
    ]
    if ops:
        return ops[:MAX_NAMED]
    return [
        Diagnostic(
            "MCM-V061",
            f"what arrives as output {quote(name)} is not what the model computes for it",
            at=f"output {quote(name)}",
        )
        for name in proof.outputs[:MAX_NAMED]
    ]


def left_to_runs(proof: StructureProof, recorded: OpenPoints = frozenset()) -> Diagnostic | None:
    """MCM-V063 where ops are not proven, because no rule covers what became of them.

    Args:
        proof: of a folder.
        recorded: as in `structure_faults`.
    """
    if proof.whole or structure_faults(proof, recorded):
        return None
    named = ", ".join(
        f"{quote(op.node)} of chip {op.chip} {op.what}" for op in proof.unproven[:MAX_NAMED]
    )
    passes = ", ".join(map(quote, proof.unfollowed_passes))
    changed = f"changed by {passes}, for which the proof by structure has no rule" if passes else ""
    return Diagnostic(
        "MCM-V063",
        f"{count_text(len(proof.unproven), 'op')} of {proof.ops:,} unproven by structure; runs "
        "compare them",
        at=named + (", ..." if len(proof.unproven) > MAX_NAMED else "")
        or ", ".join(f"output {quote(name)}" for name in proof.outputs),
        hint=changed
        or "the proof by structure has no rule for them; --strict fails, and a report "
        "of the model helps to add one",
    )


def describe_structure(proof: StructureProof) -> str:
    """One line for a report or a check."""
    text = f"{proof.proven:,} of {count_text(proof.ops, 'op')} proven"
    if proof.model is not None:
        return f"{text} against {quote(proof.model)}"
    return f"{text} against {layout.ANNOTATED}; --model compares with the original"


def _user_model_faults(
    manifest: Manifest, annotated: ir.Model, model: UserModel, contents: WeightContents
) -> list[Diagnostic]:
    if manifest.model_sha256 != model.sha256:
        return [
            Diagnostic(
                "MCM-V066",
                f"the folder was compiled from a model with the hash "
                f"{manifest.model_sha256[:12]}..., that of {quote(Path(model.name).name)} is "
                f"{model.sha256[:12]}...",
                at=layout.MANIFEST,
            )
        ]
    imported = model.imported
    faults = original_faults(model.raw, annotated, model.name, imported, contents)
    if not faults:
        faults = original_faults(model.raw, imported, model.name, imported, contents)
    return faults or [
        Diagnostic(
            "MCM-V067",
            f"the {what} in the manifest are not those of {quote(Path(model.name).name)} for the "
            "recorded sizes",
            at=layout.MANIFEST,
        )
        for what in other_ends(manifest, imported)
    ]


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
        CompileError.raise_any(external_data.check_tensors(proto, path))
        external_data.name_real_files(proto, path)
        external_data.expand_sparse_weights(proto)
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
    return CompileError.of(
        "MCM-I003", f"the model cannot be read: {reason}", str(path), "copy the file again"
    )
