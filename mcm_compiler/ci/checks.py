"""Checking many output folders, with results in the order of the list."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import other_folder
from mcm_compiler.checking.check import CheckReport, check_folder
from mcm_compiler.checking.comparison.user_data import RunData
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.execution.npz_inputs import read_npz
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.processes.foreign_code import diagnosed
from mcm_compiler.report.report_data import structure_data, verification_data
from mcm_compiler.results.strictness import UNPROVEN_EXIT

FAILURE_EXIT = 1

DEFAULT_SEEDS = 2
"""Random inputs that are compared where the user gives no data and some op is not proven."""


@dataclass(frozen=True)
class CheckOutcome:
    """Outcome of one folder.

    Attributes:
        folder: as given, or below the folder as given.
        data: the verdict in the form of `--format json`; None where nothing could be read.
        diagnostics: all of them.
        holds: whether every step passed.
        open: whether something is not proven, and that is asked for.
        line: the verdict in a few words.
        seconds: that the check took.
    """

    folder: str
    data: dict[str, Any] | None
    diagnostics: tuple[Diagnostic, ...]
    holds: bool
    open: bool
    line: str
    seconds: float

    @property
    def failed(self) -> bool:
        """True if the exit code reports it."""
        return not self.holds or self.open


def list_folders(arguments: Sequence[str]) -> tuple[str, ...]:
    """The output folders that a command line names, each once, in the order of the arguments.

    Of a folder that is none itself these are the output folders in it at any depth, sorted by
    path; names that begin with a dot and links to folders are passed over. One that holds none
    stands for itself, so that its check says what it lacks.
    """
    found: dict[str, str] = {}
    for argument in arguments:
        for folder in _inside(argument) or [argument]:
            found.setdefault(os.path.abspath(folder), folder)
    return tuple(found.values())


def _inside(top: str) -> list[str]:
    if os.path.lexists(os.path.join(top, layout.MANIFEST)):
        return [top]
    found: list[Path] = []
    for here, folders, _files in os.walk(top):
        kept: list[str] = []
        for name in folders:
            path = os.path.join(here, name)
            if name.startswith(".") or os.path.islink(path):
                continue
            if os.path.isfile(os.path.join(path, layout.MANIFEST)):
                found.append(Path(path))
            else:
                kept.append(name)
        folders[:] = kept
    return [str(path) for path in sorted(found, key=lambda path: path.parts)]


def check_one(folder: str, *, strict: bool, **asked: Any) -> CheckOutcome:
    """Checks one folder; every failure becomes diagnostics.

    Args:
        folder: to check.
        strict: whether what is not proven fails it.
        asked: arguments of `check`.
    """
    start = time.perf_counter()
    try:
        report = check(folder, **asked)
    except Exception as error:
        return failure(folder, diagnosed(error), time.perf_counter() - start)
    # Where a step fails, that it was not proven goes without saying.
    open_points = report.unproven if strict and report.holds else ()
    diagnostics = (*report.diagnostics, *open_points)
    data = {
        "holds": report.holds,
        "complete": report.complete,
        "steps": [asdict(step) for step in report.steps],
        "verification": verification_data(report.verification) if report.verification else None,
        "structure": structure_data(report.structure) if report.structure else None,
        "diagnostics": [d.to_dict() for d in diagnostics],
    }
    seconds, line = time.perf_counter() - start, report.summary(diagnostics)
    return CheckOutcome(folder, data, diagnostics, report.holds, bool(open_points), line, seconds)


def check(
    folder: str | Path,
    *,
    model: str | None = None,
    seeds: int | None = None,
    seed: int = 0,
    inputs: Sequence[Path] = (),
    test_data: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> CheckReport:
    """Proves a compiled or placed folder again, from its files alone.

    Args:
        folder: of `compile_model`, or of another verb.
        model: path or `zoo:NAME` of the model that it was made from; None trusts its own copy.
        seeds: number of random inputs that are compared; by default none with data of your own,
            else one where every op is proven, and `DEFAULT_SEEDS` otherwise.
        seed: the first.
        inputs: `.npz` files to compare outputs on as well.
        test_data: a `test_data_set_N` folder, or one that holds such folders.
        progress: called with the name of each step as it begins.

    Returns:
        The verdict; a step that fails is a part of it.

    Raises:
        CompileError: for a folder without a readable manifest, and inputs that cannot be read.
    """
    count = seeds
    if count is None:
        count = 0 if inputs or test_data is not None else DEFAULT_SEEDS
    path, checked = Path(folder), partial(check_folder, Path(folder), model=model)
    if (other := other_folder(path)) is not None:
        checked = other.check_of(path, model)
    return checked(
        seeds=range(seed, seed + count),
        proven_seeds=1 if seeds is None else None,
        data=[RunData(str(path), read_npz(path)) for path in inputs],
        test_data=test_data,
        progress=progress,
    )


def exit_code(outcomes: Sequence[CheckOutcome]) -> int:
    """0 if every folder holds, 3 if all that is wrong is not being proven, else 1."""
    if not all(outcome.holds for outcome in outcomes):
        return FAILURE_EXIT
    return UNPROVEN_EXIT if any(outcome.open for outcome in outcomes) else 0


def lost(folder: str, exit_code: int | None, journal: CrashJournal) -> CheckOutcome:
    """The outcome of a folder whose process died under it."""
    from mcm_compiler.ci.batch import lost_process

    return failure(folder, (lost_process("checked the folder", folder, exit_code, journal),), 0.0)


def failure(folder: str, diagnostics: tuple[Diagnostic, ...], seconds: float) -> CheckOutcome:
    """The outcome of a folder that could not be checked."""
    line = ", ".join(dict.fromkeys(d.code for d in diagnostics if d.severity == "error"))
    return CheckOutcome(folder, None, diagnostics, False, False, line, seconds)
