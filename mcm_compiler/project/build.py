"""A build: every cell compiled, checked and compared, those that did not change from the cache."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from mcm_compiler.artifact.layout import page_path, sha256_file
from mcm_compiler.ci.baseline import (
    FILE,
    UNUSABLE_CODE,
    AcceptedBaseline,
    read_accepted,
    report_path,
)
from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.ci.processes import work_on_all
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.execution.workers import results_of_workers
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.processes.staging import write_changed
from mcm_compiler.project import cell_work
from mcm_compiler.project.cache import BuildCache, CacheEntry, TamperedError, tampered
from mcm_compiler.project.cell_record import CellResult
from mcm_compiler.project.content import Content, environment_digest
from mcm_compiler.project.records import Cell, ProjectFile
from mcm_compiler.project.verdicts import CellOutcome, judged
from mcm_compiler.text.json_text import UnreadableError

DEFAULT_REGRESSION = 0.03
"""Share by which the throughput may fall where nothing is said."""


@dataclass(frozen=True)
class BuildOptions:
    """How a project is built.

    Attributes:
        jobs: cells that are worked on at once.
        use_cache: whether results are looked up and kept.
        baseline: folder of the output folders of an earlier build; None for the accepted baseline.
        accept: whether the figures of this build become the accepted baseline; needs `baseline`
            to be None.
        whole: whether the cells are all cells of the project.
        strict: whether what is not proven fails a cell.
        plugins: files that register components; all of the project and the command line.
        html: whether a page is written next to each output folder.
        scheduler: address of a Dask scheduler whose workers work on the cells instead.
    """

    jobs: int
    use_cache: bool
    baseline: Path | None
    strict: bool
    plugins: tuple[Path, ...]
    html: bool = False
    accept: bool = False
    whole: bool = True
    scheduler: str | None = None


def build_cells(
    project: ProjectFile,
    cells: Sequence[Cell],
    options: BuildOptions,
    notice: Callable[[Diagnostic], None],
) -> Generator[CellOutcome]:
    """Builds cells; one that fails does not stop the others.

    The process has to work in the project's folder.

    Args:
        project: they belong to.
        cells: to build.
        options: how.
        notice: called at the end with each note about the accepted baseline.

    Yields:
        The outcomes in the order of `cells`, each as soon as those before it are there.

    Raises:
        CompileError: before the first cell: MCM-U030 for a baseline that is not there, MCM-B019 and
            MCM-A002 for the cache, and as `load_plugin` and `results_of_workers`.
    """
    run = _Build(project, options)
    run.look_up(cells)
    jobs = [run.job(cell) for cell in cells if not run.is_ready(cell)]
    if jobs:
        # One that fails is reported once, and not by each process that dies of it.
        for path in options.plugins:
            load_plugin(path)
    try:
        with closing(_results(jobs, options)) as results:
            for cell in cells:
                hit = run.hits.get(cell.folder)
                result = hit if hit is not None and run.is_ready(cell) else next(results)
                yield run.accepted(judged(cell, result, strict=options.strict))
        run.finish()
        for note in run.notes(cells):
            notice(note)
    finally:
        for cell in cells:
            remove_empty(run.output, cell.folder)


def _results(jobs: Sequence[cell_work.CellJob], options: BuildOptions) -> Generator[CellResult]:
    work = cell_work.work_on
    if options.scheduler is None or not jobs:
        return work_on_all(jobs, work, cell_work.lost, options.jobs, options.plugins)
    works = [partial(work, job) for job in jobs]
    lost = CrashJournal()
    return results_of_workers(
        options.scheduler, works, lambda index: cell_work.lost(jobs[index], None, lost)
    )


class _Build:
    """State of a build before any cell is worked on.

    Attributes:
        output: folder of the output folders.
        hits: results from the cache by folder of the cell.
        without_page: folders of those cells among them whose page is still to be made.
    """

    def __init__(self, project: ProjectFile, options: BuildOptions) -> None:
        self.output = Path(project.output)
        self.hits: dict[PurePosixPath, CellResult] = {}
        self.without_page: set[PurePosixPath] = set()
        self._options = options
        self._accepted = AcceptedBaseline(Path(project.baseline))
        self._cache = BuildCache(Path(project.cache), project.cache_limit_bytes)
        self._claimed: dict[PurePosixPath, CacheEntry] = {}
        self._keys: dict[PurePosixPath, str] = {}
        self._distrusted: dict[PurePosixPath, tuple[Diagnostic, ...]] = {}

    def look_up(self, cells: Sequence[Cell]) -> None:
        """Finds what the cache has, and puts it into the output folders.

        Raises:
            CompileError: as `build`.
        """
        if self._options.baseline is not None:
            # One that is not there at all is reported before anything is compiled.
            report_path(self._options.baseline, PurePosixPath())
        if not self._options.use_cache:
            return
        self._cache.open()
        content = Content(Path(), environment_digest(self._options.plugins), self._cache)
        for cell in cells:
            try:
                key = self._keys[cell.folder] = content.key(cell)
            except OSError:
                continue  # its compile tells what cannot be read
            try:
                entry = self._cache.find(key)
                if entry is not None and not entry.signed:
                    self._claimed[cell.folder] = entry
                elif entry is not None:
                    self.hits[cell.folder] = self._hit(cell, entry)
            except TamperedError as error:
                self._distrusted[cell.folder] = (tampered(error, self._cache.root, cell.title),)
                self._cache.remove(key)

    def is_ready(self, cell: Cell) -> bool:
        """Return whether nothing is left to do for a cell."""
        return cell.folder in self.hits and cell.folder not in self.without_page

    def job(self, cell: Cell) -> cell_work.CellJob:
        """The work on a cell."""
        folder = self.output / cell.folder
        baseline = None
        if self._options.baseline is not None:
            baseline = report_path(self._options.baseline, cell.folder)
        elif self._accepted.has(cell.folder):
            baseline = self._accepted.path(cell.folder)
        asked = cell.thresholds.max_regression
        allowed = DEFAULT_REGRESSION if asked is None else asked
        if self._options.accept:
            allowed = 1.0  # whatever it is, it is accepted
        key = self._keys.get(cell.folder)
        known = self.hits.get(cell.folder)
        claimed = self._claimed.get(cell.folder)
        if claimed is not None and not claimed.files:
            claimed = None  # nothing proves that a compile fails
        return cell_work.CellJob(
            cell, folder, key, self._cache.root, baseline, allowed, self._options.html, known,
            claimed, self._distrusted.get(cell.folder, ()),
        )  # fmt: skip

    def accepted(self, outcome: CellOutcome) -> CellOutcome:
        """Accepts the figures of a cell that has no baseline, or where that is asked for.

        A cell that failed is no first baseline. Where accepting is asked for, a missed threshold
        keeps no figures out, but a compile or a check that failed does.
        """
        record, folder = outcome.record, outcome.cell.folder
        if self._options.baseline is not None or record.figures is None:
            return outcome
        holds = all(d.severity is not Severity.ERROR for d in record.diagnostics)
        if record.figures.throughput_per_s is None or not holds:
            return outcome
        first = not self._accepted.has(folder) and not outcome.failed
        if not first and not self._options.accept:
            return outcome
        # What was wrong with the figures before does not matter any more.
        left = [d for d in outcome.diagnostics if d.code != UNUSABLE_CODE]
        try:
            self._accepted.accept(folder, self.output / folder)
        except CompileError as error:
            left += error.diagnostics
        return replace(outcome, diagnostics=tuple(left))

    def notes(self, cells: Sequence[Cell]) -> list[Diagnostic]:
        """Notes on accepted figures, and on those that the baseline has beyond the cells."""
        found = self._accepted.notes()
        reason = self._cache.signer.reason
        if self._options.use_cache and reason:
            found.append(_without_key(reason))
        if self._options.whole and self._options.baseline is None:
            folders = {cell.folder for cell in cells}
            found += self._accepted.note_unknown(folders, remove=self._options.accept)
        return found

    def finish(self) -> None:
        """Notes what was used, and keeps the cache within its limit."""
        if self._options.use_cache:
            self._cache.touch(self._keys.values())
            self._cache.trim(set(self._keys.values()))

    def _hit(self, cell: Cell, entry: CacheEntry) -> CellResult:
        """The result of a cell from the cache; its output is placed.

        Raises:
            TamperedError: if the entry is not what was put into the cache.
        """
        job = self.job(cell)
        notes: list[Diagnostic] = []
        baseline = job.baseline if entry.files else None
        differs = baseline is not None and _differs(baseline, entry)
        # Read before the output is placed, which may replace the baseline.
        before = cell_work.baseline_of(job, notes.append) if differs else None
        try:
            self._cache.place(entry, job.folder)
        except CompileError as error:
            return CellResult(entry.record, None, (*notes, *error.diagnostics), cached=True)
        if differs:
            result = cell_work.compare_stored(job, entry.record, before)
        else:
            comparison = None if baseline is None else _unchanged(entry, job.allowed)
            result = CellResult(entry.record, comparison, cached=True)
        pages = self._page(cell, entry, job.folder) if self._options.html and entry.files else ()
        return replace(result, notes=(*notes, *result.notes, *pages))

    def _page(self, cell: Cell, entry: CacheEntry, folder: Path) -> tuple[Diagnostic, ...]:
        """Writes the page of a cell from the cache, or notes that it is to be made.

        Returns:
            Why it could not be written.
        """
        content = self._cache.page(entry)
        if content is None:
            self.without_page.add(cell.folder)
            return ()
        try:
            write_changed(page_path(folder), content)
        except CompileError as error:
            return error.diagnostics
        return ()


def _differs(baseline: Path, entry: CacheEntry) -> bool:
    """Return whether a baseline is another compile than that of the entry."""
    try:
        if baseline.name == FILE:
            return read_accepted(baseline).report_sha256 != entry.report_sha256
        return sha256_file(baseline) != entry.report_sha256
    except (OSError, UnreadableError):
        return True


def _unchanged(entry: CacheEntry, allowed: float) -> Comparison | None:
    """The comparison of a cell with itself."""
    figures = entry.record.figures
    if figures is None or figures.throughput_per_s is None:
        return None
    return Comparison(figures.throughput_per_s, figures.throughput_per_s, allowed, ())


def _without_key(reason: str) -> Diagnostic:
    return Diagnostic("MCM-B026", f"this installation has no key to sign its cache with: {reason}")


def remove_empty(output: Path, folder: PurePosixPath) -> None:
    """Removes a folder below the output, and those around it, as far as they are empty.

    Args:
        output: of the build; of a relative one those around it go as well.
        folder: of a cell.
    """
    inside = [output / part for part in (folder, *folder.parents)]
    around = [] if output.is_absolute() else output.parents[:-1]
    for path in (*inside, *around):
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return
