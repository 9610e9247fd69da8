"""The addition of fabrics: mappings of chips in compiles, folders, reports and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from mcm_compiler.additions import Addition, Optimum
from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.contracts.fabrics.target import FABRIC_SECTION, MappedChip, MapsChips
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.pipeline.passes import PassContext
from mcm_compiler.text.units import percent_text

FLIT_SIMULATOR = "flit simulator"


class FabricAddition(Addition):
    """Maps chips that are fabrics, and shows their floor plans."""

    def search(self, chips: Sequence[ChipModel], context: PassContext) -> tuple[MappedChip, ...]:
        """The mapping of each chip; those whose problems are equal are mapped once.

        Raises:
            CompileError: as `map_chips`.
        """
        from mcm_passes.families.fabric.chip_mappings import MappingSearch

        return MappingSearch(_fabrics(context.target), context.options, context).mapped(chips)

    def write(self, folder: Path, mapped: Sequence[MappedChip], target: Target) -> None:
        """Writes a file for each chip that is laid out by itself."""
        from mcm_passes.families.fabric.mapping_files import write_mappings

        write_mappings(folder, mapped, _fabrics(target))

    def read(
        self, folder: Path, manifest: Manifest, chips: Sequence[ChipModel], target: Target
    ) -> tuple[MappedChip, ...]:
        """The chips of the mapping files.

        Raises:
            CompileError: MCM-A005 and MCM-M024 as `read_mappings`.
        """
        from mcm_passes.families.fabric.mapping_files import mapped_of, read_mappings

        stored = mapped_of(read_mappings(folder, manifest))
        models = {chip.chip: chip for chip in chips}
        own = _fabrics(target)
        return tuple(_by_its_own_names(one, models[one.chip], own) for one in stored)

    def check(
        self, folder: Path, manifest: Manifest, chips: Sequence[ChipModel], target: Target
    ) -> str:
        """Derives and measures each mapping again; see `check_mappings`."""
        from mcm_passes.families.fabric.mapping_check import check_mappings
        from mcm_passes.families.fabric.mapping_files import read_mappings

        return check_mappings(read_mappings(folder, manifest), chips, _fabrics(target))

    def facts(self, target: Target, mapped: Sequence[MappedChip]) -> Mapping[str, Any] | None:
        """How chips are laid out; None where none is mapped."""
        if not mapped:
            return None
        from mcm_passes.families.fabric.fabric_section import fabric_facts

        return fabric_facts(_fabrics(target), mapped)

    def lines(self, report: Mapping[str, Any]) -> list[str]:
        """A table of the chips, and floor plans."""
        from mcm_passes.families.fabric.fabric_section import fabric_lines

        return fabric_lines(report)

    def page_section(self, report: Mapping[str, Any]) -> Any:
        """Floor plans."""
        from mcm_passes.families.fabric.fabric_section import page_section

        return page_section(report)

    def optimum(self, report: Mapping[str, Any]) -> Optimum:
        """The mapping of the slowest chip: the cost model knows no places and routes."""
        chips = report[FABRIC_SECTION]["chips"]
        return Optimum(
            "period of the slowest chip",
            # A period that may be wrong by some share is taken at its longest.
            max(row["period_s"] * (1.0 + row["error"]) for row in chips),
            max(row["bound_s"] for row in chips),
            FLIT_SIMULATOR,
            "units_and_channels",
            ("mappings of these units", "with this partition and these shares of units"),
        )

    def busy_with(self, report: Mapping[str, Any], chip: int) -> tuple[str, list[str]]:
        """How much of the time the compute units of a mapped chip work."""
        rows = [row for row in report[FABRIC_SECTION]["chips"] if row["chip"] == chip]
        work = [f"its compute units work {percent_text(row['utilisation'])} of it" for row in rows]
        return "fabric", work


def _fabrics(target: Target) -> MapsChips:
    return cast("MapsChips", target)


def _by_its_own_names(mapped: MappedChip, chip: ChipModel, target: MapsChips) -> MappedChip:
    """Of chips that are laid out alike a file has the stages of the first alone."""
    if mapped.like < 0:
        return mapped
    from mcm_passes.families.fabric.chip_problems import chip_problem

    stages = chip_problem(target, chip.model).stages
    if len(stages) != mapped.problem.num_stages:
        return mapped  # the check of mappings tells
    return replace(mapped, problem=replace(mapped.problem, stages=stages))


FABRICS = FabricAddition()
"""The component."""
