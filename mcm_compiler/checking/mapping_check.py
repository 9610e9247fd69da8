"""Whether the mappings of an output folder are what they say: read and measured independently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.mapping_files import MappingFile
from mcm_compiler.components.capabilities import chip_problem
from mcm_compiler.contracts.fabrics import fabric, legality
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.side_by_side import side_by_side
from mcm_compiler.text.units import count_text


def check_mappings(files: Sequence[MappingFile], chips: Sequence[ChipModel], target: Target) -> str:
    """Makes the units of each chip anew, and plays each mapping again.

    Args:
        files: of the folder.
        chips: the chips' models.
        target: the package.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-M024 for mappings of chips that are no fabrics, MCM-M028 for other rules,
            MCM-M025 for other units, MCM-M026 for mappings that are not legal, MCM-M027 for other
            figures; MCM-M001 to MCM-M005 where a chip's model can no longer be laid out.
    """
    if not isinstance(target, MapsChips):
        raise CompileError.of(
            "MCM-M024",
            f"there are mappings, and the chips of {quote(target.name)} are no fabrics",
            at=layout.mapping_file(files[0].chips[0]),
        )
    models = {chip.chip: chip for chip in chips}

    def fault_of(file: MappingFile) -> Diagnostic | None:
        fault = _by_other_rules(file, target)
        for chip in file.chips if fault is None else ():
            problem = chip_problem(target, models[chip].model)
            fault = fault or _other_units(file, problem, chip)
        return fault or _illegal(file, target) or _other_figures(file, target)

    faults = [fault for fault in side_by_side(fault_of, files) if fault is not None]
    CompileError.raise_any(faults)
    most = max(file.period_cycles for file in files)
    return f"{count_text(len(files), 'mapping')} measured again, at most {most:,.1f} cycles"


def _by_other_rules(file: MappingFile, target: MapsChips) -> Diagnostic | None:
    judge = target.mapping_judge()
    for name, stored, own in (
        ("lowering", file.lowering, target.lowering_hash),
        ("judge", file.judge, judge.name),
        ("physics", file.physics, judge.physics),
        ("fabric", file.fabric, target.fabric.name),
    ):
        if stored != own:
            message = f"{name} is {quote(stored[:16])}, here it is {quote(own[:16])}"
            return _told("MCM-M028", message, file)
    return None


def _other_units(file: MappingFile, problem: fabric.MappingProblem, chip: int) -> Diagnostic | None:
    stored = file.problem()
    for name, ours in vars(problem).items():
        if not isinstance(ours, np.ndarray):
            continue
        theirs = getattr(stored, name)
        if len(theirs) != len(ours):
            message = f"{name} has {len(theirs)} entries, and {len(ours)} by the model of the chip"
        elif len(wrong := np.flatnonzero(theirs != ours)):
            at = int(wrong[0])
            message = f"{name}[{at}] is {theirs[at]}, and {ours[at]} by the model of the chip"
        else:
            continue
        return _told("MCM-M025", f"chip {chip}: {message}", file)
    same = problem.stages if chip == file.chips[0] else stored.stages
    if stored.stages != same or stored.num_stages != problem.num_stages:
        return _told("MCM-M025", f"chip {chip}: stages have other names, or another number", file)
    return None


def _illegal(file: MappingFile, target: MapsChips) -> Diagnostic | None:
    (one, *_) = file.mapped()
    wrong = legality.faults_of_problem(one.problem, target.fabric) or legality.faults_of_mapping(
        one.problem, target.fabric, one.mapping
    )
    return _told("MCM-M026", wrong[0], file) if wrong else None


def _other_figures(file: MappingFile, target: MapsChips) -> Diagnostic | None:
    (one, *_) = file.mapped()
    judge = target.mapping_judge()
    measured = judge.measure(one.problem, target.fabric, one.mapping)
    for name, ours in (
        ("period_cycles", float(measured.period_cycles[0])),
        ("latency_cycles", float(measured.latency_cycles[0])),
        ("error", float(measured.error[0])),
        ("bound_cycles", judge.bound_cycles(one.problem, target.fabric)),
    ):
        theirs = getattr(file, name)
        if theirs != ours:
            return _told("MCM-M027", f"{name} is {theirs!r}, measured it is {ours!r}", file)
    return None


def _told(code: str, message: str, file: MappingFile) -> Diagnostic:
    return Diagnostic(code, message, at=layout.mapping_file(file.chips[0]))
