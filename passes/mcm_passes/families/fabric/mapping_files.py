"""`mapping_CC.json`: where the units of a chip lie, as data that `mcmc check` proves again.

Chips that are laid out alike share a file, which has the number of the first of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import damaged, folder_record, read_json
from mcm_compiler.contracts.fabrics.fabric import MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.target import MappedChip, MapsChips
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import Amount, Index, Size

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
