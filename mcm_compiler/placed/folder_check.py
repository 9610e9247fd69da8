"""`mcmc check` of a placement: proves its folder again, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcm_compiler.checking.check import CheckReport, check_steps, describe_verification
from mcm_compiler.checking.comparison import equality
from mcm_compiler.checking.comparison.output_coverage import weakness_warnings
from mcm_compiler.checking.comparison.stock_options import died_warning
from mcm_compiler.checking.comparison.user_data import RunData, read_data_sets
from mcm_compiler.contracts.verification import StructureProof, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.placed import file_names, placement_checks
from mcm_compiler.placed.folder_reading import check_hashes, read_placement_folder

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
    run = _Run(read, seeds, proven_seeds, data, test_data)
    return check_steps(folder, run, ("files", "model", "placement", "segments"), progress)


@dataclass(eq=False)
class _Run:
    """One check of a placement; see `mcm_compiler.checking.check.CheckRun`.

    Attributes:
        read: the placement.
        seeds: as in `check_placement_folder`.
        proven_seeds: as there.
        data: as there.
        test_data: as there.
    """

    read: placement_checks.ReadPlacement
    seeds: Sequence[int]
    proven_seeds: int | None
    data: Sequence[RunData]
    test_data: Path | None
    verification: Verification | None = None
    structure: StructureProof | None = None
    skips: dict[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])

    def steps(self) -> dict[str, Callable[[], str]]:
        """The steps in their order."""
        read = self.read
        by_model = {"model": lambda: placement_checks.check_model(read)}
        return {
            "files": lambda: check_hashes(read.opened),
            **({} if read.step_of is None else by_model),
            "placement": lambda: placement_checks.check_placement(read),
            "step": lambda: placement_checks.check_step(read),
            "bound": lambda: placement_checks.check_step_bound(read),
            "segments": self._segments,
            "equality": self._equality,
            "report": lambda: placement_checks.check_report_text(read),
        }

    def notes(self, step: str) -> list[Diagnostic]:
        """Notes on a step that holds."""
        found = [self.skips[step]] if step in self.skips else []
        if step == "equality" and self.verification is not None:
            found += weakness_warnings(self.verification.weak, self.verification.structure)
            found += died_warning(self.verification)
        return found

    def _segments(self) -> str:
        schedule = self.read.opened.schedule
        return (
            _NOT_CUT if schedule is None else placement_checks.check_segments(self.read, schedule)
        )

    def _equality(self) -> str:
        """Runs both on the same inputs.

        Raises:
            CompileError: MCM-V020 and MCM-V022 for outputs that differ, MCM-V001 to MCM-V003 where
                one of them does not run.
        """
        opened = self.read.opened
        schedule = opened.schedule
        if schedule is None:
            return _NOT_CUT
        data = list(self.data)
        if self.test_data is not None:
            data += read_data_sets(self.test_data, opened.annotated)
        found = equality.verify_folder(
            equality.ReadFolder(opened.path, opened.annotated, opened.record.model.shape_only),
            {entry.segment: entry.file for entry in schedule.segments},
            schedule.wires,
            self.seeds,
            data,
            enough=self.proven_seeds,
            stock=opened.path / file_names.ANNOTATED if self.read.step_of is not None else None,
        )
        self.verification = found
        if (note := equality.not_compared(found)) is not None:
            self.skips["equality"] = note
        if not found.holds:
            raise CompileError(
                equality.differences(found, f"{file_names.SCHEDULE} has the segments")
            )
        return describe_verification(found)
