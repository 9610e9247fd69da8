"""A build from its arguments, and its result: the verdict, and a row for each cell."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.processes.side_by_side import usable_cores
from mcm_compiler.project.build import BuildOptions, build_cells
from mcm_compiler.project.cells import cells_of, only, target_names
from mcm_compiler.project.reader import read_project
from mcm_compiler.project.records import FILE_NAME, Cell, ProjectFile, Settings
from mcm_compiler.project.summary import counts_text, verdict_text
from mcm_compiler.project.verdicts import CellOutcome, unused_sizes
from mcm_compiler.report.verdict.words import line_of
from mcm_compiler.text.headline import Headline, Shown


@dataclass(frozen=True)
class BuiltCell:
    """A model for a target; figures are None where the pipeline computed none.

    Attributes:
        cell: its name, the folder below that of the build.
        model: path or `zoo:NAME`.
        target: a name or a path.
        ok: whether it is as the project asks.
        cached: whether its result was there already.
        throughput_per_s: inferences per second, simulated.
        period_s: its inverse.
        latency_s: of one inference, simulated.
        lower_bound_s: proven bound on the period.
        gap: of the period over the bound, less 1.
        chips_used: chips with ops.
        change: of the throughput from the baseline, as a share; None without one.
        codes: of its errors.
    """

    cell: str
    model: str
    target: str
    ok: bool
    cached: bool
    throughput_per_s: float | None
    period_s: float | None
    latency_s: float | None
    lower_bound_s: float | None
    gap: float | None
    chips_used: int | None
    change: float | None
    codes: tuple[str, ...]


_FIGURES = tuple(BuiltCell.__dataclass_fields__)[5:-2]


@dataclass(frozen=True, repr=False)
class Built(Shown):
    """Result of a build.

    Attributes:
        project: that was built.
        outcomes: of its cells, with diagnostics.
        notes: about the project file and the baseline.
    """

    project: ProjectFile
    outcomes: tuple[CellOutcome, ...]
    notes: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """True if no cell failed."""
        return not any(outcome.failed for outcome in self.outcomes)

    @property
    def cells(self) -> list[BuiltCell]:
        """A row for each cell, in the order of the file."""
        return [
            BuiltCell(
                cell=one.cell.title,
                model=one.cell.model,
                target=one.cell.target,
                ok=not one.failed,
                cached=one.cached,
                **{name: getattr(one.record.figures, name, None) for name in _FIGURES},
                change=None if one.comparison is None else one.comparison.change,
                codes=tuple(one.error_codes),
            )
            for one in self.outcomes
        ]

    @property
    def headline(self) -> Headline:
        """Counts, and the verdict of each cell with its first error."""
        lines = [
            line_of(
                outcome.cell.title,
                verdict_text(outcome),
                [one.message for one in outcome.diagnostics[:1] if outcome.failed],
                "bad" if outcome.failed else "good",
            )
            for outcome in self.outcomes
        ]
        ends = self.project.root.name, "", "simulated, no hardware measured"
        return Headline(ends, lines, self.ok, counts_text(self.outcomes))


class Plan(NamedTuple):
    """Cells to build.

    Attributes:
        project: they belong to.
        every: all cells of the project.
        cells: those that are built.
        plugins: files that register components; absolute.
    """

    project: ProjectFile
    every: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    plugins: tuple[Path, ...]

    def run(self, options: BuildOptions, shown: Callable[[CellOutcome], None]) -> Built:
        """Builds the cells; the process has to work in the project's folder.

        Args:
            options: how.
            shown: called with each outcome as it comes, in the order of the cells.

        Raises:
            CompileError: as `build_cells`.
        """
        notes: list[Diagnostic] = []
        outcomes: list[CellOutcome] = []
        results = build_cells(self.project, self.cells, options, notes.append)
        # An interrupt ends the other processes here, not whenever the generator is collected.
        with contextlib.closing(results):
            for outcome in results:
                outcomes.append(outcome)
                shown(outcome)
        notes += unused_sizes(self.project, outcomes) if options.whole else ()
        return Built(self.project, tuple(outcomes), tuple(notes))


def read_build(project: str | Path, over: Settings | None = None) -> ProjectFile:
    """The project of a file or of a folder with one, and with options that win over its own.

    Raises:
        CompileError: as `read_project`.
    """
    path = Path(project)
    read = read_project(path / FILE_NAME if path.is_dir() else path)
    return read if over is None else replace(read, over=over)


def planned(project: ProjectFile, patterns: Sequence[str], plugins: Sequence[Path]) -> Plan:
    """The cells of a project that patterns name; all without any.

    Raises:
        CompileError: as `cells_of` and `only`.
    """
    given = (*(project.root / path for path in project.plugins), *(p.absolute() for p in plugins))
    every = cells_of(project, target_names(given))
    return Plan(project, every, only(every, patterns), given)


def build(
    project: str | Path = ".",
    *,
    patterns: Sequence[str] = (),
    jobs: int | None = None,
    use_cache: bool = True,
    baseline: Path | None = None,
    accept: bool = False,
    strict: bool = False,
) -> Built:
    """Compiles the models of a project, checks them, and compares them with the baseline.

    Args:
        project: a project file, or a folder with `mcmc.toml`.
        patterns: of cells, models or targets to build; empty for all.
        jobs: cells that are worked on at once; None for as many as cores.
        use_cache: whether results are looked up and kept.
        baseline: folder of an earlier build to compare with, instead of the accepted baseline.
        accept: make the figures of this build the accepted baseline.
        strict: whether what is not proven fails a cell.

    Returns:
        The result; a cell that fails is a part of it.

    Raises:
        CompileError: for the project file, the cache and the baseline.
    """
    plan = planned(read_build(project), patterns, ())
    compared = None if baseline is None else baseline.absolute()
    options = BuildOptions(
        jobs or usable_cores(),
        use_cache,
        compared,
        strict,
        plan.plugins,
        accept=accept,
        whole=not patterns,
    )
    with contextlib.chdir(plan.project.root):
        return plan.run(options, lambda outcome: None)
