"""`mcmc check` of a placement: proves its folder again, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcm_compiler.checking.check import CheckReport, CheckRun, check_steps
from mcm_compiler.checking.comparison import equality
from mcm_compiler.checking.comparison.user_data import RunData, read_data_sets
from mcm_compiler.placed import placement_checks, records
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
    run = _Run(seeds, proven_seeds, data, test_data, read)
    return check_steps(folder, run, ("files", "model", "placement", "segments"), progress)


@dataclass(eq=False)
class _Run(CheckRun):
    """One check of a placement.

    Attributes:
        read: the placement.
    """

    read: placement_checks.ReadPlacement

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

    def _segments(self) -> str:
        schedule = self.read.opened.schedule
        return (
            _NOT_CUT if schedule is None else placement_checks.check_segments(self.read, schedule)
        )

    def _equality(self) -> str:
        """Runs both on the same inputs; raises as `compared`."""
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
            stock=opened.path / records.ANNOTATED if self.read.step_of is not None else None,
        )
        return self.compared(found, lambda: f"{records.SCHEDULE} has the segments")
