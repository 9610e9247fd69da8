"""Reading the reports of an earlier build."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePath

from mcm_compiler.artifact import layout
from mcm_compiler.ci import accepted
from mcm_compiler.ci.figures import Figures, figures_of, stored_op_times
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text.json_text import UnreadableError

UNUSABLE_CODE = "MCM-U030"

_MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What reading raises where a stored report is not of the published schema."""


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
        kept = place / accepted.FILE
        return kept if os.path.lexists(kept) else place / layout.REPORT
    if folder is not None and baseline.exists():
        raise _unusable(baseline, "it is a file; many models need a folder of output folders")
    if not baseline.exists():
        raise _unusable(baseline, "there is no such file or folder")
    return baseline


def read_baseline(path: Path, notice: Callable[[Diagnostic], None] | None = None) -> Figures | None:
    """The figures of an earlier report, with the time of every op if `program.json` lies beside it.

    In an output folder hashes and figures are checked first; a report that lies elsewhere is taken
    at its word.

    Args:
        path: the report.
        notice: told of MCM-A021 or MCM-A023, where figures were not proven by a folder.

    Returns:
        None if there is no such file: the model is new.

    Raises:
        CompileError: MCM-U030 if the report or the program beside it is damaged, of another
            schema version, or says nothing about speed.
    """
    if path.name == accepted.FILE:
        try:
            return accepted.read_accepted(path).figures
        except UnreadableError as error:
            raise unusable_accepted(path, error) from error
    if not path.exists():
        return None
    # Imported late: a build of which nothing has changed compares no figures.
    from mcm_compiler.artifact.manifest import read_json
    from mcm_compiler.checking.entry.gate import bare_report_note, open_folder
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
    except _MALFORMED as error:
        reason = f"a field is missing or malformed: {type(error).__name__}: {error}"
        raise _unusable(current, reason) from error


def unusable_accepted(path: Path, error: UnreadableError) -> CompileError:
    """MCM-U030 for accepted figures that cannot be read."""
    return _unusable(
        path, str(error), "restore the file, or accept the figures of now: mcmc build --accept"
    )


def missing(model: str, path: Path) -> Diagnostic:
    """The note for a model that an earlier build did not have."""
    return Diagnostic(
        "MCM-U035",
        "the baseline does not have this model, so there is nothing to compare it with",
        at=f"{model}, looked for in {path}",
    )


def _unusable(path: Path, reason: str, hint: str | None = None) -> CompileError:
    message = f"the baseline cannot be used: {reason}"
    return CompileError.of(UNUSABLE_CODE, message, at=str(path), hint=hint)
