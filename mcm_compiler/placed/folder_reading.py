"""Opening the folder of a placement: nothing of it is used before its hashes hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import onnx_ir as ir

from mcm_compiler.artifact.manifest import (
    damaged,
    description_text,
    folder_record,
    read_json,
    refuse_outside,
)
from mcm_compiler.checking.entry.gate import file_faults, unlisted
from mcm_compiler.checking.entry.structure_check import load_part
from mcm_compiler.components.cost_files import stored_files
from mcm_compiler.components.target_loading import package_from_text
from mcm_compiler.contracts.boxes.box import BoxTarget
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed import records
from mcm_compiler.placed.records import PlacementManifest, PlacementRecord, Schedule
from mcm_compiler.text.units import count_text

T = TypeVar("T")

NEEDED = frozenset(
    {
        records.PLACEMENT,
        records.TARGET,
        records.ANNOTATED,
        records.ONNXRUNTIME,
        records.OPENVINO,
        records.REPORT_TEXT,
    }
)
"""Files that every folder has."""


@dataclass(frozen=True, eq=False)
class OpenedPlacement:
    """A folder whose manifest is read. What its files hold is read when it is asked for, once.

    Attributes:
        path: the folder.
        manifest: its manifest.
    """

    path: Path
    manifest: PlacementManifest

    @cached_property
    def record(self) -> PlacementRecord:
        """`placement.json`.

        Raises:
            CompileError: MCM-A005 if it cannot be used.
        """
        return _versioned(self.path / records.PLACEMENT, PlacementRecord)

    @cached_property
    def schedule(self) -> Schedule | None:
        """`schedule.json`; None where the step was not cut.

        Raises:
            CompileError: MCM-A005 if it cannot be used.
        """
        if records.SCHEDULE not in self.manifest.files:
            return None
        path = self.path / records.SCHEDULE
        schedule = _versioned(path, Schedule)
        for place, entry in enumerate(schedule.segments):
            if entry.segment != place or entry.file != records.segment_file(place):
                raise damaged(path, f"segment {entry.segment} stands at place {place}")
            if entry.file not in self.manifest.files:
                raise CompileError(unlisted(self.path, {entry.file}))
        return schedule

    @cached_property
    def target(self) -> BoxTarget:
        """The box, with the cost models that were chosen for its devices.

        Raises:
            CompileError: MCM-A005 if its description cannot be read or is no box, MCM-T### for
                faults of it, MCM-C### if its cost models cannot be used.
        """
        path = self.path / records.TARGET
        read = stored_files(self.path, self.manifest.files)
        target = package_from_text(self.record.target, description_text(path), str(path), read)
        if not isinstance(target, BoxTarget):
            raise damaged(path, "it describes no host with CPUs and GPUs")
        return target

    @cached_property
    def annotated(self) -> ir.Model:
        """The model that was placed, with its weights memory-mapped.

        Raises:
            CompileError: MCM-A005 if it is no model, MCM-I### for faults in it.
        """
        return load_part(self.path, records.ANNOTATED)

    @cached_property
    def segments(self) -> tuple[ChipModel, ...]:
        """The models of the segments.

        Raises:
            CompileError: as `annotated`.
        """
        entries = self.schedule.segments if self.schedule is not None else ()
        return tuple(
            ChipModel(e.segment, load_part(self.path, e.file), e.inputs, e.outputs) for e in entries
        )


def read_placement_folder(path: Path) -> OpenedPlacement:
    """Reads the manifest, and nothing else.

    Raises:
        CompileError: MCM-A005 if it is damaged, of another schema version, or names a file outside
            the folder.
    """
    manifest = _versioned(path / records.MANIFEST, PlacementManifest)
    refuse_outside(path / records.MANIFEST, manifest.files)
    return OpenedPlacement(path, manifest)


def open_placement(path: Path, *, further: bool = False) -> OpenedPlacement:
    """Opens the folder of a placement: its hashes hold.

    Args:
        path: the folder.
        further: whether there may be files that the manifest does not list; nothing reads them.

    Raises:
        CompileError: as `read_placement_folder` and `check_hashes`.
    """
    opened = read_placement_folder(path)
    check_hashes(opened, further=further)
    return opened


def check_hashes(opened: OpenedPlacement, *, further: bool = False) -> str:
    """Return whether the files are those of the manifest.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-A006 to MCM-A009, one diagnostic per file.
    """
    files = opened.manifest.files
    faults = file_faults(opened.path, files, further=further)
    faults += unlisted(opened.path, NEEDED - files.keys())
    CompileError.raise_any(faults)
    return count_text(len(files), "hash", "hashes")


def _versioned(path: Path, kind: type[T]) -> T:
    data = read_json(path)
    version = data.get("schema_version")
    if version != records.SCHEMA_VERSION:
        wanted = records.SCHEMA_VERSION
        raise CompileError.of(
            "MCM-A005",
            f"{path.name} has schema version {version!r:.40}; this release reads {wanted}",
            at=str(path),
            hint="re-run `mcmc place`",
        )
    return folder_record(path, data, kind)
