"""Simulating a compiled folder from its files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.artifact.program_file import check_program_of
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.checking.entry.constraint_check import refuse_overlap
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.entry.structure_check import check_structure
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import PackageLimits, Target


@dataclass(frozen=True, eq=False)
class CompiledFolder:
    """What a folder holds of a compiled model.

    Attributes:
        target: the package.
        program: what its chips run.
        graphs: the chips' models by chip.
        replicas: pipelines side by side that run them.
        limits: numbers of the chips of one pipeline.
        certificate: what was placed and where; None where nothing was.
    """

    target: Target
    program: LoweredProgram
    graphs: dict[int, ir.Graph]
    replicas: int
    limits: PackageLimits
    certificate: Certificate | None = None


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
    check_structure(opened)
    target, program, chips = opened.target, opened.program, opened.chips
    refuse_overlap(manifest, target)
    check_program_of(program, chips, manifest.wires)
    graphs = {chip.chip: chip.model.graph for chip in chips}
    limits = target.limits.first(manifest.chips_each or target.limits.num_chips)
    return CompiledFolder(target, program, graphs, manifest.replicas, limits, opened.certificate)
