"""`mcmc check` of a placement: proves its folder again, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mcm_compiler.checking.check import CheckReport, CheckStep, describe_verification
from mcm_compiler.checking.comparison import equality
from mcm_compiler.checking.comparison.output_coverage import weakness_warnings
from mcm_compiler.checking.comparison.stock_options import died_warning
from mcm_compiler.checking.comparison.user_data import RunData, read_data_sets
from mcm_compiler.contracts.verification import Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.placed import file_names, placement_checks
from mcm_compiler.placed.folder_reading import check_hashes, read_placement_folder
from mcm_compiler.processes.crash_journal import doing

_NOT_CUT = "the step was not cut into segments"


def check_placement_folder(
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1),
    proven_seeds: int | None = 1,
    data: Sequence[RunData] = (),
    test_data: Path | None = None,
    progress: Callable[[str], None] | None = None,
    step_of: placement_checks.StepOfModel | None = None,
) -> CheckReport:
    """Checks hashes, placement, figures, bound, segments, equality and the report.

    Args:
        folder: of a placement.
        seeds: seeds of the random inputs on which the segments are compared with the model.
        proven_seeds: how many of them are used, as every op is proven; None uses all.
        data: the user's data, compared as well.
        test_data: a `test_data_set_N` folder, or one that holds such folders.
        progress: called with the name of each step as it begins.
        step_of: makes the step of the user's own model, which the folder is compared with; None
            takes the folder's copy.

    Raises:
        CompileError: MCM-A005 if there is no readable manifest.
    """
    read = placement_checks.ReadPlacement(read_placement_folder(folder))
    if step_of is not None:
        read = replace(read, step_of=step_of)
    run = _Comparison(read, seeds, proven_seeds, data, test_data)
    steps: dict[str, Callable[[], str]] = {
        "files": lambda: check_hashes(read.opened),
        **({} if step_of is None else {"model": lambda: placement_checks.check_model(read)}),
        "placement": lambda: placement_checks.check_placement(read),
        "step": lambda: placement_checks.check_step(read),
        "bound": lambda: placement_checks.check_step_bound(read),
        "segments": lambda: _segments(read),
        "equality": run.compare,
        "report": lambda: placement_checks.check_report_text(read),
    }
    done: list[CheckStep] = []
    found: list[Diagnostic] = []
    for name, step in steps.items():
        if progress is not None:
            progress(name)
        try:
            with doing(f"folder {quote(str(folder))}"), doing(f"step '{name}'"):
                detail = step()
            skipped = name == "equality" and run.skipped
            done.append(CheckStep(name, True, detail, skipped))
        except CompileError as error:
            found += error.diagnostics
            done.append(CheckStep(name, False, error.diagnostics[0].message))
            if name in ("files", "model", "placement", "segments"):
                break  # what follows would read or run what is not the model
    found += run.notes
    return CheckReport(tuple(done), tuple(found), run.verification, None, quote(str(folder)))


def _segments(read: placement_checks.ReadPlacement) -> str:
    schedule = read.opened.schedule
    return _NOT_CUT if schedule is None else placement_checks.check_segments(read, schedule)


class _Comparison:
    """The comparison of the segments with the model in onnxruntime."""

    def __init__(
        self,
        read: placement_checks.ReadPlacement,
        seeds: Sequence[int],
        proven_seeds: int | None,
        data: Sequence[RunData],
        test_data: Path | None,
    ) -> None:
        self._read = read
        self._seeds = seeds
        self._proven_seeds = proven_seeds
        self._data = data
        self._test_data = test_data
        self.verification: Verification | None = None
        self.skipped = False
        self.notes: list[Diagnostic] = []

    def compare(self) -> str:
        """Runs both on the same inputs.

        Raises:
            CompileError: MCM-V020 and MCM-V022 for outputs that differ, MCM-V001 to MCM-V003 where
                one of them does not run.
        """
        opened = self._read.opened
        schedule = opened.schedule
        if schedule is None:
            return _NOT_CUT
        data = list(self._data)
        if self._test_data is not None:
            data += read_data_sets(self._test_data, opened.annotated)
        found = equality.verify_folder(
            equality.ReadFolder(opened.path, opened.annotated, opened.record.model.shape_only),
            {entry.segment: entry.file for entry in schedule.segments},
            schedule.wires,
            self._seeds,
            data,
            enough=self._proven_seeds,
            stock=opened.path / file_names.ANNOTATED if self._read.step_of is not None else None,
        )
        self.verification = found
        if (note := equality.not_compared(found)) is not None:
            self.skipped = True
            self.notes.append(note)
        if not found.holds:
            raise CompileError(
                equality.differences(found, f"{file_names.SCHEDULE} has the segments")
            )
        self.notes += [*weakness_warnings(found.weak, found.structure), *died_warning(found)]
        return describe_verification(found)
