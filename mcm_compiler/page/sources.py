"""What a page of a compiled model is made from: its report, and the folder where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcm_compiler.artifact import layout

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.checking.entry.gate import OpenedFolder
    from mcm_compiler.contracts.program import LoweredProgram
    from mcm_compiler.contracts.target import Target


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled model.

    Attributes:
        report: as from `build_report`.
        folder: that it lies in; None for a report by itself, which has fewer pictures.
    """

    report: Mapping[str, Any]
    folder: OpenedFolder | None = None

    @cached_property
    def program(self) -> LoweredProgram | None:
        """What the chips run; None where nothing was lowered."""
        if self.folder is None or layout.PROGRAM not in self.folder.manifest.files:
            return None
        return self.folder.program

    @cached_property
    def certificate(self) -> Certificate | None:
        """Problem, placement and bounds; None where nothing was placed."""
        return None if self.folder is None else self.folder.certificate

    @cached_property
    def target(self) -> Target | None:
        """The package."""
        return None if self.folder is None else self.folder.target

    @cached_property
    def roles(self) -> list[tuple[int, int, int]]:
        """Chip of the package, its pipeline, and the chip of a pipeline whose model it runs."""
        replication = self.report.get("replication") or {}
        if roles := replication.get("chips"):
            return [(role["chip"], role["pipeline"], role["runs"]) for role in roles]
        return [(row["chip"], 0, row["chip"]) for row in self.report["chips"] or ()]

    @cached_property
    def replicas(self) -> int:
        """Pipelines side by side."""
        return (self.report.get("replication") or {"replicas": 1})["replicas"]

    @cached_property
    def chips_each(self) -> int:
        """Chips from one pipeline to the next; 0 where there is one."""
        replication = self.report.get("replication")
        return replication["chips_each"] if replication and self.replicas > 1 else 0
