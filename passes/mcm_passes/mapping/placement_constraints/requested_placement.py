"""What the user requests of a placement: pins for the search, or a whole assignment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import PartitionProblem, PartitionStrategy
from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.placement_constraints.name_matching import KnownNames
from mcm_passes.mapping.placement_constraints.pins import (
    known_names,
    match_pins,
    refuse_contradictions,
)

if TYPE_CHECKING:
    from mcm_compiler.placements.assignment_file import AssignedName


@dataclass(frozen=True, eq=False)
class RequestedPlacement:
    """The pins and the assignment of one compile.

    Attributes:
        pins: chip of each pinned op or group, for `build_problem`.
        rows: the assignment, or None.
        names: of ops and groups.
    """

    pins: dict[str, int]
    rows: tuple[AssignedName, ...] | None
    names: KnownNames

    @classmethod
    def of(cls, model: ir.Model, plan: FusionPlan, options: CompileOptions) -> RequestedPlacement:
        """Reads what `options` request; MCM-F010 to MCM-F012."""
        rows = None
        if options.assignment is not None:
            from mcm_compiler.placements.assignment_file import read_assignment

            rows = read_assignment(Path(options.assignment))
        if rows is None and not options.pins:
            return cls({}, None, KnownNames(()))
        names = known_names(model, plan)
        return cls(match_pins(options.pins, names), rows, names)

    def strategy(
        self, problem: PartitionProblem, model: ir.Model, options: CompileOptions
    ) -> tuple[PartitionStrategy | None, list[Diagnostic]]:
        """The strategy that an assignment stands for, or None without one, and what to report.

        Raises:
            CompileError: MCM-F011 to MCM-F014.
        """
        if self.pins:
            refuse_contradictions(problem, self.pins)
        if self.rows is None:
            return None, []
        from mcm_passes.mapping.placement_constraints.assignments import assign, refuse_invalid
        from mcm_passes.mapping.search.manual import Manual

        source = SOURCE.find(model)
        gone = [] if source is None else [node.name or "" for node in source.original.graph]
        assigned = assign(problem, self.rows, self.names, gone)
        chip_of, notes = refuse_invalid(
            problem,
            assigned.chip_of,
            str(options.assignment),
            repair=options.repair_assignment,
            seed=options.seed,
        )
        if assigned.ignored:
            message = (
                f"{count_text(len(assigned.ignored), 'row')} of the assignment, such as that of "
                f"{quote(assigned.ignored[0])}, are for ops that are no more: folded, merged or "
                "split"
            )
            at = str(options.assignment)
            notes.append(Diagnostic("MCM-F016", message, at=at, severity=Severity.NOTE))
        return cast("PartitionStrategy", Manual(tuple(chip_of.tolist()))), notes
