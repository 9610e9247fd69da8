"""Simulating a compiled folder from its files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.constraint_check import refuse_overlap
from mcm_compiler.artifact.gate import open_folder
from mcm_compiler.artifact.manifest import MAX_JSON_BYTES, Manifest, damaged, read_manifest
from mcm_compiler.artifact.program_file import check_program_of
from mcm_compiler.artifact.structure_check import check_structure
from mcm_compiler.cost_files import stored_files
from mcm_compiler.program import LoweredProgram
from mcm_compiler.target import PackageLimits, Target
from mcm_compiler.target_loading import target_from_text


@dataclass(frozen=True, eq=False)
class CompiledFolder:
    """What a folder holds of a compiled model.

    Attributes:
        target: the package.
        program: what its chips run.
        graphs: the chips' models by chip.
        replicas: pipelines side by side that run them.
        limits: numbers of the chips of one pipeline.
    """

    target: Target
    program: LoweredProgram
    graphs: dict[int, ir.Graph]
    replicas: int
    limits: PackageLimits


def folder_target(folder: Path) -> Target:
    """The package that a folder was compiled for, from its `target.toml`.

    Raises:
        CompileError: MCM-A004 if `folder` is not an output folder, MCM-A005 if the file is
            missing, MCM-T### if it is faulty, MCM-C### if its cost model cannot be used.
    """
    return target_of(folder, read_manifest(folder))


def target_of(folder: Path, manifest: Manifest) -> Target:
    """The same where the manifest is known."""
    name = manifest.target
    path = folder / layout.TARGET
    try:
        if path.stat().st_size > MAX_JSON_BYTES or not path.is_file():
            raise damaged(path, "it is no description of a target")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not UTF-8 text") from error
    return target_from_text(name, text, str(path), stored_files(folder, manifest.files))


def read_compiled(folder: Path) -> CompiledFolder:
    """Reads what a simulation needs, and makes sure that it is what the compiler wrote.

    All hashes of the manifest are compared, and manifest, chips' models and program with each
    other. That the models compute the right thing, and that lowering them gives this program, is
    for `check_folder` to prove. Files that the manifest does not list are left alone.

    Raises:
        CompileError: MCM-A004 to MCM-A013 for the files and what they hold, MCM-I### for faults
            of a chip's model, MCM-T### for faults of the target's description, MCM-V050 for
            pipelines side by side that the package has no room for.
    """
    opened = open_folder(folder, further=True)
    manifest = opened.manifest
    check_structure(folder, manifest)
    target, program, chips = opened.target, opened.program, opened.chips
    refuse_overlap(manifest, target)
    check_program_of(program, chips, manifest.wires)
    graphs = {chip.chip: chip.model.graph for chip in chips}
    limits = target.limits.first(manifest.chips_each or target.limits.num_chips)
    return CompiledFolder(target, program, graphs, manifest.replicas, limits)
