"""The work on one cell: compile, check, compare with the baseline, and keep the result.

A process does this for many cells, one after the other. What they need is imported by the first.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcm_compiler.artifact.layout import page_path
from mcm_compiler.ci import batch
from mcm_compiler.ci.baseline import Baseline, stored_report
from mcm_compiler.ci.batch import input_symbols
from mcm_compiler.ci.batch import lost as lost_compile
from mcm_compiler.ci.comparison import REGRESSION_CODE, RISE_CODE
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.diagnostics.refusals import is_of_the_moment
from mcm_compiler.options import CompileOptions
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.processes.foreign_code import diagnosed
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.project import proving
from mcm_compiler.project.cache import BuildCache, CacheEntry, TamperedError, tampered
from mcm_compiler.project.cell_record import (
    CellFigures,
    CellRecord,
    CellResult,
    CheckStep,
    StoredDiagnostic,
)
from mcm_compiler.project.records import Cell
from mcm_compiler.results.strictness import UNPROVEN_CODE

if TYPE_CHECKING:
    from mcm_compiler.checking.check import CheckReport


_HINTS = {
    REGRESSION_CODE: "undo the change, allow it with max_regression, or accept it with mcmc build "
    "--accept",
    RISE_CODE: "mcmc build --accept makes it the baseline of later builds",
}
"""Hints of comparisons in a project, whose baseline is the accepted one."""


@dataclass(frozen=True)
class CellJob:
    """A cell to work on.

    Attributes:
        cell: to compile; its paths are relative to the folder that the process works in.
        folder: the output folder to write.
        key: of the cell, or None where nothing is kept.
        cache: folder of the cache.
        baseline: the earlier report, or None where there is nothing to compare with.
        allowed: share by which the throughput may fall.
        html: whether a page is written next to the output folder.
        known: the result, where the cache has it and only the page lacks.
        claimed: an entry of the cache that this installation did not sign, to be proven.
        distrusted: why an entry of the cache is not used.
    """

    cell: Cell
    folder: Path
    key: str | None
    cache: Path
    baseline: Path | None
    allowed: float
    html: bool = False
    known: CellResult | None = None
    claimed: CacheEntry | None = None
    distrusted: tuple[Diagnostic, ...] = ()


def work_on(job: CellJob) -> CellResult:
    """Compiles a cell, checks and compares it; every failure becomes diagnostics."""
    if job.known is not None:
        return job.known.with_notes(_paged(job, kept=True))
    start = time.perf_counter()
    notes = [*job.distrusted]
    before = baseline_of(job, notes.append)
    if job.claimed is not None:
        try:
            return _proven(job, job.claimed, before, start).with_notes(notes)
        except (TamperedError, proving.UnprovenError) as error:
            notes.append(tampered(error, job.cache, job.cell.title))
    outcome = _compiled(job, start)
    steps: tuple[CheckStep, ...] = ()
    if outcome.report is not None:
        steps, outcome = _checked(job, outcome)
    seconds = time.perf_counter() - start
    record = _record(outcome.report, steps, outcome.diagnostics, seconds, _dimensions(job.cell))
    compared = batch.with_baseline(outcome, before)
    notes += map(_with_project_hint, compared.diagnostics[len(outcome.diagnostics) :])
    return CellResult(record, compared.comparison, (*notes, *_kept(job, record)))


def _kept(job: CellJob, record: CellRecord) -> list[Diagnostic]:
    """Puts a result into the cache, and writes its page; what the system refuses of that."""
    notes: list[Diagnostic] = []
    lasting = job.key is not None and is_lasting(record)
    if job.key is not None and lasting:
        folder = job.folder if record.figures is not None else None
        try:
            BuildCache(job.cache, 0).store(job.key, folder, record)
        except CompileError as error:
            notes += error.diagnostics
    if job.html and record.figures is not None:
        notes += _paged(job, lasting)
    return notes


def _proven(job: CellJob, entry: CacheEntry, before: Baseline | None, start: float) -> CellResult:
    """The result of an entry of the cache that is proven again, and signed by that.

    Raises:
        UnprovenError, TamperedError: if it is not; the cell is to be compiled.
    """
    cell, cache = job.cell, BuildCache(job.cache, 0)
    if (reason := proving.obstacle(cell)) is not None:
        raise proving.UnprovenError(reason)
    try:
        checked = partial(_check, cell, model=cell.model)
        proven = proving.prove(cell, options_of(cell), entry, cache, job.folder, checked)
    except CompileError as error:
        raise proving.UnprovenError(error.diagnostics[0].message) from error
    found = (*proven.check.diagnostics, *proven.check.unproven)
    seconds = time.perf_counter() - start
    record = _record(proven.report, proven.check.steps, found, seconds, _dimensions(cell))
    notes = [proving.proven_note(cell), *_kept(job, record)]
    return compare_stored(job, record, before).with_notes(notes)


def lost(job: CellJob, exit_code: int | None, journal: CrashJournal) -> CellResult:
    """The result of a cell whose process died under it."""
    outcome = lost_compile(batch.Job(job.cell.model, job.folder), exit_code, journal)
    if job.known is not None:
        return job.known.with_notes(outcome.diagnostics)
    return CellResult(_record(None, (), outcome.diagnostics, 0.0, None), None, job.distrusted)


def _paged(job: CellJob, kept: bool) -> tuple[Diagnostic, ...]:
    """Writes the page of a finished output folder next to it, and into the cache.

    Args:
        job: its folder is written.
        kept: whether the cache has the folder.

    Returns:
        Why it could not be written.
    """
    from mcm_compiler.page.folder_page import written_folder_page

    try:
        content = written_folder_page(job.folder)
        write_whole(page_path(job.folder), content)
    except Exception as error:
        return diagnosed(error)
    if job.key is not None and kept:
        BuildCache(job.cache, 0).keep_page(job.key, content)
    return ()


def compare_stored(job: CellJob, record: CellRecord, before: Baseline | None) -> CellResult:
    """The result of a cell from the cache, compared with a baseline that differs from it.

    Args:
        job: its folder has the output from the cache.
        record: of the cell.
        before: as from `baseline_of`.
    """
    if before is None:
        return CellResult(record, cached=True)
    comparison, notes = before.compared(job.cell.model, *stored_report(job.folder))
    return CellResult(record, comparison, tuple(map(_with_project_hint, notes)), cached=True)


def _with_project_hint(found: Diagnostic) -> Diagnostic:
    """A diagnostic of the comparison with the hint that a project needs."""
    hint = _HINTS.get(found.code, found.hint)
    return replace(found, hint=hint)


def baseline_of(job: CellJob, notice: Callable[[Diagnostic], None]) -> Baseline | None:
    """The baseline of a cell, or None where there is none."""
    return None if job.baseline is None else Baseline.of(job.baseline, job.allowed, notice)


def is_lasting(record: CellRecord) -> bool:
    """Return whether another try would end the same: a failed check is looked at again, too."""
    codes = [found.code for found in record.found if found.severity == Severity.ERROR]
    if record.figures is not None:
        return not codes
    return not any(map(is_of_the_moment, codes))


def options_of(cell: Cell) -> CompileOptions:
    """The options of the compile of a cell.

    Raises:
        CompileError: as `CompileOptions`.
    """
    given = {name: value for name, value in cell.options.items() if name != "sensitivities"}
    return CompileOptions(dims=_dims(cell), input=cell.inputs, sources=cell.sources, **given)


def _compiled(job: CellJob, start: float) -> batch.CompileOutcome:
    cell = job.cell
    try:
        sensitivities = cell.options.get("sensitivities", False)
        options = options_of(cell)
    except Exception as error:
        return batch.failure(batch.Job(cell.model, job.folder), error, start)
    # What is not proven is reported by the check, which tries to prove all of it.
    settings = batch.Settings(cell.target, options, force=True, sensitivities=sensitivities)
    return batch.compile_one(settings, batch.Job(cell.model, job.folder))


def _dims(cell: Cell) -> dict[str, int]:
    """The sizes that the model has a dimension for; those asked of it alone stay in any case.

    Sample inputs bind the dimensions of theirs.
    """
    symbols = _symbols(cell)
    if symbols is None:
        return dict(cell.dims)
    bound = _arrays_of(cell.inputs) if cell.inputs is not None else frozenset[str]()
    known = {name for value, names in symbols.items() if value not in bound for name in names}
    return {
        name: size for name, size in cell.dims.items() if name in known or name not in cell.lenient
    }


def _dimensions(cell: Cell) -> tuple[str, ...] | None:
    """As `CellRecord.dimensions`."""
    symbols = _symbols(cell)
    return None if symbols is None else tuple(sorted(frozenset().union(*symbols.values())))


def _arrays_of(inputs: str) -> frozenset[str]:
    """Names of the arrays of a file, of which none is read."""
    try:
        with zipfile.ZipFile(inputs) as archive:
            return frozenset(name.removesuffix(".npy") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return frozenset()  # the compile tells why


def _symbols(cell: Cell) -> Mapping[str, frozenset[str]] | None:
    """As `input_symbols`; None where the model may lack none of the sizes that it is given."""
    return input_symbols(cell.model) if cell.lenient else None


def _checked(
    job: CellJob, outcome: batch.CompileOutcome
) -> tuple[tuple[CheckStep, ...], batch.CompileOutcome]:
    """The steps of the check, and the outcome with what it found."""
    try:
        found = _check(job.cell, job.folder)
    except Exception as error:
        return (), replace(outcome, diagnostics=(*outcome.diagnostics, *diagnosed(error)))
    known = {(d.code, d.message) for d in outcome.diagnostics}
    further = [
        d
        for d in (*found.diagnostics, *(found.unproven if found.holds else ()))
        if (d.code, d.message) not in known
    ]
    return found.steps, replace(outcome, diagnostics=(*outcome.diagnostics, *further))


def _check(cell: Cell, folder: Path, *, model: str | None = None) -> CheckReport:
    """The check of an output folder of a cell.

    Raises:
        CompileError: as `check_folder`, and for sample inputs that cannot be read.
    """
    from mcm_compiler.ci.checks import check

    inputs = () if cell.inputs is None else (Path(cell.inputs),)
    return check(folder, inputs=inputs, model=model)


def _record(
    report: Mapping[str, Any] | None,
    steps: tuple[CheckStep, ...],
    diagnostics: Sequence[Diagnostic],
    seconds: float,
    dimensions: tuple[str, ...] | None,
) -> CellRecord:
    found = [StoredDiagnostic.of(d) for d in diagnostics if d.code != UNPROVEN_CODE]
    open_points = [StoredDiagnostic.of(d) for d in diagnostics if d.code == UNPROVEN_CODE]
    figures = None if report is None else CellFigures.of_report(report)
    return CellRecord(figures, steps, tuple(found), tuple(open_points), seconds, dimensions)
