"""Reading the reports of an earlier build.

The accepted baseline: figures that later builds are compared with until others are accepted.

Each compile has a file of its own, which is replaced at once, so that an interrupted build leaves
the figures before or those after it. The file has a hash of what it holds: one that was damaged is
an error, not a compile without a baseline.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import msgspec

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.ci.comparison import Comparison, compare
from mcm_compiler.ci.figures import Figures, figures_of, stored_op_times
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.staging import cannot_write, no_empty_folders, write_whole
from mcm_compiler.results.op_times import OpTime
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded, record_of
from mcm_compiler.text.units import count_text

UNUSABLE_CODE = "MCM-U030"


def report_path(baseline: Path, folder: PurePath | None) -> Path:
    """Where the report of a model, or what was accepted of it, is.

    Args:
        baseline: as given: a folder, or the report of a single model.
        folder: the model's output folder in the batch, or None for a single model.

    Raises:
        CompileError: MCM-U030 if `baseline` is missing, or a file where a folder is needed.
    """
    if baseline.is_dir():
        place = baseline if folder is None else baseline / folder
        kept = place / FILE
        return kept if os.path.lexists(kept) else place / layout.REPORT
    if folder is not None and baseline.exists():
        raise _unusable(baseline, "it is a file; many models need a folder of output folders")
    if not baseline.exists():
        raise _unusable(baseline, "there is no such file or folder")
    return baseline


def read_baseline(path: Path, notice: Callable[[Diagnostic], None] | None = None) -> Figures | None:
    """The figures of an earlier report, with the time of every op if `program.json` is next to it.

    In an output folder hashes and figures are checked first; a report that is elsewhere is taken
    at its word.

    Args:
        path: the report.
        notice: notified of MCM-A021 or MCM-A023, where figures were not proven by a folder.

    Returns:
        None if there is no such file: the model is new.

    Raises:
        CompileError: MCM-U030 if the report or the program next to it is damaged, of another
            schema version, or says nothing about speed.
    """
    if path.name == FILE:
        try:
            return read_accepted(path).figures
        except UnreadableError as error:
            raise unusable_accepted(path, error) from error
    if not path.exists():
        return None
    # Imported late: a build of which nothing has changed compares no figures.
    from mcm_compiler.artifact.manifest import read_json
    from mcm_compiler.checking.entry.gate import MALFORMED, bare_report_note, open_folder
    from mcm_compiler.checking.figures_check import check_stored_figures

    program = path.with_name(layout.PROGRAM)
    current = path
    try:
        report = read_json(path)
        if (version := report.get("schema_version")) != layout.REPORT_SCHEMA_VERSION:
            raise _unusable(
                path, f"its schema version is {version!r}, not {layout.REPORT_SCHEMA_VERSION}"
            )
        if path.with_name(layout.MANIFEST).exists():
            note = check_stored_figures(open_folder(path.parent, further=True))
        else:
            note = bare_report_note(path)
        if note is not None and notice is not None:
            notice(note)
        current = program
        times = stored_op_times(read_json(program)) if program.exists() else None
        current = path
        return figures_of(report, times)
    except CompileError as error:
        if error.diagnostics[0].code == UNUSABLE_CODE:
            raise
        raise _unusable(current, error.diagnostics[0].message) from error
    except MALFORMED as error:
        reason = f"a field is missing or malformed: {type(error).__name__}: {error}"
        raise _unusable(current, reason) from error


def unusable_accepted(path: Path, error: UnreadableError) -> CompileError:
    """MCM-U030 for accepted figures that cannot be read."""
    return _unusable(
        path, str(error), "restore the file, or accept the figures of now: mcmc build --accept"
    )


@dataclass(frozen=True)
class Baseline:
    """Earlier figures of a model, to compare a compile with.

    Attributes:
        path: of the report, or of the accepted figures.
        figures: None where the earlier build lacks the model; a diagnostic where they are unusable.
        allowed: largest share by which the throughput may fall.
    """

    path: Path
    figures: Figures | Diagnostic | None
    allowed: float

    @staticmethod
    def of(path: Path, allowed: float, notice: Callable[[Diagnostic], None]) -> Baseline:
        """Reads the figures; `notice` as in `read_baseline`."""
        try:
            return Baseline(path, read_baseline(path, notice), allowed)
        except CompileError as error:
            return Baseline(path, error.diagnostics[0], allowed)

    def compared(
        self, model: str, report: Mapping[str, Any], op_times: tuple[OpTime, ...] | None
    ) -> tuple[Comparison | None, tuple[Diagnostic, ...]]:
        """A comparison with a report as of `figures_of`, or None; and its explanation."""
        if isinstance(self.figures, Diagnostic):
            return None, (self.figures,)
        if self.figures is None:
            new = "the baseline does not have this model, so there is nothing to compare it with"
            at = f"{model}, looked for in {self.path}"
            return None, (Diagnostic("MCM-U035", new, at=at),)
        if report["throughput_per_s"] is None:
            message = "the compile has no throughput to compare with the baseline"
            return None, (Diagnostic("MCM-U038", message, at=model),)
        comparison = compare(self.figures, figures_of(report, op_times), self.allowed)
        return comparison, comparison.diagnostics(f"{model}, compared with {self.path}")


def _unusable(path: Path, reason: str, hint: str | None = None) -> CompileError:
    message = f"the baseline cannot be used: {reason}"
    return CompileError.of(UNUSABLE_CODE, message, at=str(path), hint=hint)


def stored_report(folder: Path) -> tuple[Mapping[str, Any], tuple[OpTime, ...] | None]:
    """The report of an output folder, and the times of its ops, as `figures_of` takes them.

    Raises:
        CompileError: MCM-A005 if one cannot be read.
    """
    from mcm_compiler.artifact.manifest import read_json

    program = folder / layout.PROGRAM
    times = stored_op_times(read_json(program)) if program.exists() else None
    return read_json(folder / layout.REPORT), times


FILE = "accepted.json"
"""Name of the file in the folder of a compile."""

MAX_BYTES = 1 << 28
"""Of the file, which has the time of every kernel."""


@dataclass(frozen=True)
class Accepted:
    """Accepted figures of one compile.

    Attributes:
        report_sha256: hash of its report.
        figures: of it.
    """

    report_sha256: str
    figures: Figures


def write_accepted(path: Path, accepted: Accepted) -> None:
    """Replaces the accepted figures of a compile.

    Raises:
        CompileError: as `write_whole`; MCM-A002 if the folder cannot be made.
    """
    data = msgspec.to_builtins(accepted)
    text = json.dumps({"sha256": _digest(data), "accepted": data}, indent=1)
    write_whole(path, f"{text}\n".encode())


def read_accepted(path: Path) -> Accepted:
    """The accepted figures of a compile.

    Raises:
        UnreadableError: if the file is not as it was written.
    """
    data = parse_json(read_bounded(path, MAX_BYTES))
    if not isinstance(data, dict) or data.get("sha256") != _digest(data.get("accepted")):
        raise UnreadableError("its hash is not that of what it holds")
    found = record_of(data["accepted"], Accepted)
    speeds = (found.figures.throughput_per_s, found.figures.period_s)
    if not all(math.isfinite(speed) and speed > 0 for speed in speeds):
        raise UnreadableError("its throughput or its period is not a positive number")
    return found


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


_NAMED = 5
"""Cells that a note names."""


class AcceptedBaseline:
    """The accepted figures of a project's cells.

    Args:
        root: folder with a folder for each cell.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._first: list[str] = []
        self._replaced: list[str] = []

    def path(self, folder: PurePosixPath) -> Path:
        """The file of a cell, whether or not it exists."""
        return self.root / folder / FILE

    def has(self, folder: PurePosixPath) -> bool:
        """Return whether something was accepted of a cell, or anything has the place of that."""
        return os.path.lexists(self.path(folder))

    def accept(self, folder: PurePosixPath, output: Path) -> None:
        """Makes the figures of an output folder those that were accepted of a cell.

        Raises:
            CompileError: MCM-A002 or MCM-U050 if they cannot be written, MCM-A005 if the output
                cannot be read.
        """
        found = Accepted(sha256_file(output / layout.REPORT), figures_of(*stored_report(output)))
        path = self.path(folder)
        (self._replaced if self.has(folder) else self._first).append(str(folder))
        try:
            with no_empty_folders(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_accepted(path, found)
        except OSError as error:
            raise cannot_write(error, path) from error

    def notes(self) -> list[Diagnostic]:
        """Notes about accepted figures."""
        found: list[Diagnostic] = []
        if self._first:
            cells = count_text(len(self._first), "cell")
            message = f"{cells} had no accepted baseline, and the figures of this build are it now"
            found.append(self._note("MCM-B022", f"{message}: {_names(self._first)}"))
        if self._replaced:
            cells = count_text(len(self._replaced), "cell")
            message = f"the figures of this build are the accepted baseline of {cells} now"
            found.append(self._note("MCM-B023", f"{message}: {_names(self._replaced)}"))
        return found

    def note_unknown(self, folders: Collection[PurePosixPath], *, remove: bool) -> list[Diagnostic]:
        """A note about accepted figures of cells that the project does not have.

        Args:
            folders: of all cells of the project.
            remove: whether those figures go.
        """
        unknown = [folder for folder in self._folders() if folder not in folders]
        if not unknown:
            return []
        if remove:
            for folder in unknown:
                self._remove(folder)
        cells = count_text(len(unknown), "cell")
        message = f"the baseline {'had' if remove else 'has'} {cells} that the project does not"
        message += f" have: {_names(map(str, unknown))}"
        hint = None if remove else "mcmc build --accept removes what is not built any more"
        return [self._note("MCM-B024", message, hint)]

    def _folders(self) -> list[PurePosixPath]:
        found = [Path(here) for here, _, files in os.walk(self.root) if FILE in files]
        return sorted(PurePosixPath(path.relative_to(self.root).as_posix()) for path in found)

    def _remove(self, folder: PurePosixPath) -> None:
        with contextlib.suppress(OSError):
            self.path(folder).unlink()
            for part in (folder, *folder.parents[:-1]):
                (self.root / part).rmdir()

    def _note(self, code: str, message: str, hint: str | None = None) -> Diagnostic:
        return Diagnostic(code, message, at=quote(str(self.root)), hint=hint)


def _names(cells: Iterable[str]) -> str:
    every = list(cells)
    shown = ", ".join(map(quote, every[:_NAMED]))
    return shown if len(every) <= _NAMED else f"{shown}, and {len(every) - _NAMED} more"
