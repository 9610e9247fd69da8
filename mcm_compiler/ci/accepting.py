"""The accepted baseline of a project: which cells have one, and what a build changes in it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from mcm_compiler.artifact import layout
from mcm_compiler.ci.accepted import FILE, Accepted, write_accepted
from mcm_compiler.ci.figures import figures_of, stored_op_times
from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.processes.empty_folders import no_empty_folders
from mcm_compiler.processes.staging import cannot_write
from mcm_compiler.text.units import count_text

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
        """Whether something was accepted of a cell, or anything has the place of that."""
        return os.path.lexists(self.path(folder))

    def accept(self, folder: PurePosixPath, output: Path) -> None:
        """Makes the figures of an output folder those that were accepted of a cell.

        Raises:
            CompileError: MCM-A002 or MCM-U050 if they cannot be written, MCM-A005 if the output
                cannot be read.
        """
        from mcm_compiler.artifact.manifest import read_json

        report, program = output / layout.REPORT, output / layout.PROGRAM
        times = stored_op_times(read_json(program)) if program.exists() else None
        found = Accepted(_sha256(report), figures_of(read_json(report), times))
        path = self.path(folder)
        (self._replaced if self.has(folder) else self._first).append(str(folder))
        try:
            with no_empty_folders(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_accepted(path, found)
        except OSError as error:
            raise cannot_write(error, path) from error

    def notes(self) -> list[Diagnostic]:
        """What was accepted so far."""
        found: list[Diagnostic] = []
        if self._first:
            cells = count_text(len(self._first), "cell")
            message = f"{cells} had no accepted baseline, and the figures of this build are it now"
            hint = "keep the folder, under version control or between runs of CI"
            found.append(self._note("MCM-B022", f"{message}: {_names(self._first)}", hint))
        if self._replaced:
            cells = count_text(len(self._replaced), "cell")
            message = f"the figures of this build are the accepted baseline of {cells} now"
            found.append(self._note("MCM-B023", f"{message}: {_names(self._replaced)}", None))
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

    def _note(self, code: str, message: str, hint: str | None) -> Diagnostic:
        at = quote(str(self.root))
        return Diagnostic(code, message, at=at, hint=hint, severity=Severity.NOTE)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _names(cells: Iterable[str]) -> str:
    every = list(cells)
    shown = ", ".join(map(quote, every[:_NAMED]))
    return shown if len(every) <= _NAMED else f"{shown}, and {len(every) - _NAMED} more"
