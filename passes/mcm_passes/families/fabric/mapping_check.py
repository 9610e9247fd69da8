"""The check of the mappings of an output folder: each file is derived again from its chips."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from mcm_compiler.artifact import layout
from mcm_compiler.contracts.fabrics import legality
from mcm_compiler.contracts.fabrics.target import MappedChip, MapsChips
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.side_by_side import side_by_side
from mcm_compiler.text.json_text import leaf_differences
from mcm_compiler.text.units import count_text
from mcm_passes.families.fabric.chip_mappings import chip_problem
from mcm_passes.families.fabric.mapping_files import MappingFile, mapping_file_of, read_mappings

_CODES = {
    **dict.fromkeys(("fabric", "lowering", "judge", "physics"), "MCM-M028"),
    **dict.fromkeys(("stages", "units", "streams"), "MCM-M025"),
}
"""Codes of fields that differ; that of figures is MCM-M027."""


def read_mapped(
    folder: Path, files: Collection[str], chips: Sequence[ChipModel], target: MapsChips
) -> tuple[MappedChip, ...]:
    """The chips of the mapping files of a folder.

    Raises:
        CompileError: as `read_mappings`.
    """
    models = {chip.chip: chip for chip in chips}

    def by_its_own_names(one: MappedChip) -> MappedChip:
        """Of chips that are laid out alike a file has the stages of the first alone."""
        if one.like < 0:
            return one
        stages = chip_problem(target, models[one.chip].model).stages
        if len(stages) != one.problem.num_stages:
            return one  # the check of mappings tells
        return replace(one, problem=replace(one.problem, stages=stages))

    found = read_mappings(folder, files, [*models])
    mapped = (by_its_own_names(one) for file in found for one in file.mapped())
    return tuple(sorted(mapped, key=lambda one: one.chip))


def check_mappings(
    folder: Path, names: Collection[str], chips: Sequence[ChipModel], target: MapsChips
) -> str:
    """Derives the units of each chip from its model, and plays each mapping again.

    Args:
        folder: its path.
        names: of its files.
        chips: the chips' models.
        target: the package.

    Returns:
        A summary.

    Raises:
        CompileError: as `read_mappings`; MCM-M028 for other rules, MCM-M025 for other units,
            MCM-M026 for mappings that are not legal, MCM-M027 for other figures; MCM-M001 to
            MCM-M005 where a chip's model can no longer be laid out.
    """
    models = {chip.chip: chip for chip in chips}
    files = read_mappings(folder, names, [*models])

    def fault_of(file: MappingFile) -> Diagnostic | None:
        one, *_ = file.mapped()
        for chip in file.chips:
            problem = chip_problem(target, models[chip].model)
            if chip != one.chip and problem.num_stages == one.problem.num_stages:
                # Stages have the names of the first chip.
                problem = replace(problem, stages=file.stages)
            if (fault := _difference(file, replace(one, problem=problem), target)) is not None:
                return replace(fault, message=f"chip {chip}: {fault.message}")
        return _illegal(file, one, target) or _difference(file, _measured(one, target), target)

    faults = [fault for fault in side_by_side(fault_of, files) if fault is not None]
    CompileError.raise_any(faults)
    most = max(file.period_cycles for file in files)
    return f"{count_text(len(files), 'mapping')} measured again, at most {most:,.1f} cycles"


def _difference(file: MappingFile, derived: MappedChip, target: MapsChips) -> Diagnostic | None:
    """The first leaf of a file that is not what follows."""
    ours = asdict(mapping_file_of(derived, file.chips, target))
    for found in leaf_differences("", asdict(file), ours):
        field = re.split(r"\W", found, maxsplit=2)[1]
        return _fault(_CODES.get(field, "MCM-M027"), found.removeprefix("."), file)
    return None


def _illegal(file: MappingFile, one: MappedChip, target: MapsChips) -> Diagnostic | None:
    wrong = legality.faults_of_problem(one.problem, target.fabric) or legality.faults_of_mapping(
        one.problem, target.fabric, one.mapping
    )
    return _fault("MCM-M026", wrong[0], file) if wrong else None


def _measured(one: MappedChip, target: MapsChips) -> MappedChip:
    """A chip with the figures that its mapping measures."""
    judge = target.mapping_judge()
    found = judge.measure(one.problem, target.fabric, one.mapping)
    return replace(
        one,
        period_cycles=float(found.period_cycles[0]),
        latency_cycles=float(found.latency_cycles[0]),
        error=float(found.error[0]),
        bound_cycles=judge.bound_cycles(one.problem, target.fabric),
    )


def _fault(code: str, message: str, file: MappingFile) -> Diagnostic:
    return Diagnostic(code, message, at=layout.mapping_file(file.chips[0]))
