"""`mapping_CC.json`: where the units of a chip are, as data that `mcmc check` derives again.

Chips that are laid out alike share a file, which has the number of the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import damaged, folder_record, read_json
from mcm_compiler.contracts.fabrics import legality
from mcm_compiler.contracts.fabrics.fabric import MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.target import MappedChip, MapsChips
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.side_by_side import side_by_side
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import Amount, Index, Size, leaf_differences
from mcm_compiler.text.units import count_text
from mcm_passes.families.fabric.chip_mappings import chip_problem

T = TypeVar("T", "UnitColumns", "StreamColumns")

SCHEMA_VERSION = 1

MAX_UNITS = 1 << 16
"""Units and streams of a chip: more than any fabric has sites for."""

Wide = Annotated[tuple[Size, ...], Meta(max_length=MAX_UNITS)]
Narrow = Annotated[tuple[Index, ...], Meta(max_length=MAX_UNITS)]
Leaves = Annotated[tuple[Index, ...], Meta(max_length=MAX_UNITS * 16)]


@dataclass(frozen=True)
class UnitColumns:
    """All units, column by column; columns but the last as in `MappingProblem`.

    Attributes:
        kind: of site that a unit needs: 0 compute, 1 memory, 2 input and output.
        op: what it does, as an index into the kinds of ops.
        stage: that it belongs to, as an index into `stages`.
        firings: per sample.
        cycles: of each.
        burst: firings after which results leave it.
        depth: samples that it holds at once.
        memory_bytes: SRAM that it needs.
        site: where it is.
    """

    kind: Narrow
    op: Narrow
    stage: Narrow
    firings: Wide
    cycles: Wide
    burst: Wide
    depth: Narrow
    memory_bytes: Wide
    site: Narrow


@dataclass(frozen=True)
class StreamColumns:
    """All streams, column by column.

    Attributes:
        source: unit that a stream leaves.
        leaf_ptr: where its destinations begin in `leaf`; one entry more than there are streams.
        leaf: units that streams go to.
        flits: per sample.
        turn: 0 along the row first, 1 along the column first.
    """

    source: Narrow
    leaf_ptr: Narrow
    leaf: Leaves
    flits: Wide
    turn: Narrow


_FOUND = ("method", "period_cycles", "latency_cycles", "bound_cycles", "error")
"""Fields that a file and a `MappedChip` have in common."""


@dataclass(frozen=True)
class MappingFile:
    """How chips are laid out that are laid out alike.

    Attributes:
        chips: ascending.
        fabric: name of the fabric.
        lowering: hash of the rules by which units are made.
        judge: what measured.
        physics: hash of what measurements depend on.
        method: what found the mapping.
        stages: names, those of the first chip.
        units: what is where.
        streams: what goes where.
        period_cycles: measured.
        latency_cycles: measured.
        bound_cycles: no mapping has a shorter period.
        error: by which share the period may be wrong.
    """

    chips: Annotated[tuple[Index, ...], Meta(min_length=1)]
    fabric: str
    lowering: str
    judge: str
    physics: str
    method: str
    stages: tuple[str, ...]
    units: UnitColumns
    streams: StreamColumns
    period_cycles: Amount
    latency_cycles: Amount
    bound_cycles: Amount
    error: Amount

    def problem(self) -> MappingProblem:
        """Problem as laid out; nothing of it is checked."""
        arrays = _arrays(self.units) | _arrays(self.streams)
        del arrays["site"], arrays["turn"]
        return MappingProblem(name=f"chip {self.chips[0]}", stages=self.stages, **arrays)

    def mapped(self) -> list[MappedChip]:
        """Its chips, ascending; nothing of them is checked."""
        problem = self.problem()
        site = np.array(self.units.site, np.int32)[None]
        mapping = Mappings(site, np.array(self.streams.turn, np.int32)[None])
        figures = {name: getattr(self, name) for name in _FOUND}
        first = self.chips[0]
        return [
            MappedChip(chip, problem, mapping, like=-1 if chip == first else first, **figures)
            for chip in self.chips
        ]


def write_mappings(folder: Path, mapped: Sequence[MappedChip], target: MapsChips) -> None:
    """Writes a file for each chip that is laid out by itself.

    Args:
        folder: a staging folder, which becomes the output folder whole or not at all.
        mapped: all used chips.
        target: whose chips they are.
    """
    for stale in folder.glob(layout.MAPPING_FILES):
        stale.unlink()  # of a run before the graph changed
    for one in mapped:
        if one.like >= 0:
            continue
        alike = [other.chip for other in mapped if one.chip in (other.chip, other.like)]
        data = mapping_file_of(one, alike, target)
        path = folder / layout.mapping_file(one.chip)
        json_text.write(path, {"schema_version": SCHEMA_VERSION, **asdict(data)})


def mapping_file_of(one: MappedChip, alike: Sequence[int], target: MapsChips) -> MappingFile:
    """The file of a chip; a compile writes it, and a check derives it again.

    Args:
        one: the chip.
        alike: all chips that are laid out so, ascending.
        target: whose chips they are.
    """
    judge = target.mapping_judge()
    columns = vars(one.problem) | {"site": one.mapping.site[0], "turn": one.mapping.turn[0]}
    return MappingFile(
        chips=tuple(alike),
        fabric=target.fabric.name,
        lowering=target.lowering_hash,
        judge=judge.name,
        physics=judge.physics,
        stages=one.problem.stages,
        units=_columns(UnitColumns, columns),
        streams=_columns(StreamColumns, columns),
        **{name: getattr(one, name) for name in _FOUND},
    )


def read_mappings(
    folder: Path, files: Collection[str], used: Sequence[int]
) -> tuple[MappingFile, ...]:
    """The mapping files of a folder, by name; none where chips are no fabrics.

    Args:
        folder: its path.
        files: that its manifest lists.
        used: its chips.

    Raises:
        CompileError: MCM-A005 for a file that is damaged; MCM-M024 where the files are not about
            the chips of the folder, each once.
    """
    names = sorted(name for name in files if layout.is_mapping_file(name))
    found: list[MappingFile] = []
    for name in names:
        path = folder / name
        data: dict[str, Any] = dict(read_json(path))
        if data.get("schema_version") != SCHEMA_VERSION:
            raise damaged(path, f"its schema version is not {SCHEMA_VERSION}")
        found.append(folder_record(path, data, MappingFile))
    if not found:
        return ()
    placed = sorted(chip for file in found for chip in file.chips)
    own = [layout.mapping_file(min(file.chips)) for file in found]
    if placed != sorted(used) or own != names:
        raise CompileError.of(
            "MCM-M024",
            f"mapping files are about chips {_listed(placed)}, and the folder uses {_listed(used)}",
            at=", ".join(names[:3]),
        )
    return tuple(found)


def _columns(kind: type[T], values: Mapping[str, Any]) -> T:
    """Columns of a table from arrays by name."""
    return kind(**{name: tuple(values[name].tolist()) for name in kind.__annotations__})


def _arrays(table: UnitColumns | StreamColumns) -> dict[str, Any]:
    """Columns as arrays of the types of `MappingProblem`, by name."""
    kinds = {f.name: np.int64 if f.type == "Wide" else np.int32 for f in fields(table)}
    return {name: np.array(getattr(table, name), kind) for name, kind in kinds.items()}


def _listed(chips: Sequence[int]) -> str:
    shown = ", ".join(map(str, chips[:8]))
    return f"{shown}, ..." if len(chips) > 8 else shown


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
