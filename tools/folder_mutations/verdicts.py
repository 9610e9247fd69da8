"""What the checks say of a mutant, and whether it is one at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from folder_mutations.mutants import Mutant
from mcm_compiler.artifact import layout
from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.entry.structure_check import check_structure
from mcm_compiler.checking.structure_step import UserModel, prove_folder, structure_faults
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import run_batches, same_bits
from mcm_compiler.graph.map_types import load_model

SEEDS = range(4)


def refusal(folder: Path, model: UserModel | None) -> str | None:
    """The code with which files, structure or source refuse a folder; None where they accept it.

    These steps of `check` run nothing, so that what they refuse is refused by structure.
    """
    try:
        opened = open_folder(folder)
        check_structure(opened)
        faults = structure_faults(prove_folder(opened, model))
    except CompileError as error:
        return error.diagnostics[0].code
    return faults[0].code if faults else None


def whole_check(folder: Path, model: str | None) -> str | None:
    """The first code with which a whole `check` refuses a folder, or None."""
    report = check_folder(folder, model=model, seeds=(0,))
    return None if report.holds else report.diagnostics[0].code


def is_equivalent(folder: Path, original: Path, mutant: Mutant) -> bool:
    """Whether the changed folder computes to the bit what the original model computes.

    This rule is the test's own: it runs the changed files and the original, and knows nothing of
    numbers of values.
    """
    reference = load_model(original)
    outputs = [value.name or "" for value in reference.graph.outputs]
    batches: list[dict[str, Any]] = [random_inputs(reference, seed) for seed in SEEDS]
    try:
        expected = run_batches(original, batches, outputs)
        if mutant.file == layout.ANNOTATED:
            found = run_batches(folder / layout.ANNOTATED, batches, outputs)
        else:
            manifest = read_manifest(folder)
            chips = [chip.chip for chip in manifest.chips]
            wires, classes = manifest.wires, manifest.round
            found = run_chain(folder, chips, wires, outputs, batches, classes=classes)
    except CompileError:
        return False
    return all(
        same_bits(left[name], right[name])
        for left, right in zip(expected, found, strict=True)
        for name in outputs
    )
