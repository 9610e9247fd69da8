"""Measuring cells, each a pure function of what it names, on processes or on a cluster."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.jobs import open_jobs
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_study.cells import Cell, KeptCells, Record
from mcm_study.curves import sample_counts
from mcm_study.methods import Method, run_method
from mcm_study.problems import Setting, StudyProblem, study_problem
from mcm_study.recording import RecordedPeriods

WARMING_SAMPLES = 40
"""Enough for all that is compiled on the way."""

AHEAD = 4
"""Cells for each process that are begun while the first of them is waited for."""

CLUSTER_AHEAD = 256
"""Cells that are begun on a cluster."""

Measurement = Callable[[Cell, StudyProblem], Record]
"""Makes the record of a cell from it and its problem; pure."""


def measure_cells(
    cells: Sequence[Cell],
    measure: Measurement,
    kept: KeptCells,
    *,
    workers: int = 0,
    scheduler: str | None = None,
    fresh: bool = False,
) -> int:
    """Measures those of the cells that are missing, and keeps each as it comes.

    Args:
        cells: all that there shall be.
        measure: pure; makes the record of a cell.
        kept: what there is, and what comes.
        workers: processes; 0 for this one.
        scheduler: address of a Dask scheduler instead.
        fresh: measure again what other code measured.

    Returns:
        How many were refused, which are told of and not kept.
    """
    missing = [cell for cell in cells if kept.find(cell, fresh=fresh) is None]
    # Here, because the importer forks, which a process with JAX should not.
    studies = {cell.setting: study_problem(cell.setting) for cell in missing}
    start, done, refused = time.monotonic(), 0, 0
    begun: deque[tuple[Cell, int]] = deque()
    with open_jobs(workers, scheduler) as jobs:
        for cell in [*missing, None]:
            if cell is not None:
                begun.append((cell, jobs.submit(_record_of, measure, cell, studies[cell.setting])))
            ahead = 0 if cell is None else AHEAD * workers if scheduler is None else CLUSTER_AHEAD
            while len(begun) > ahead:
                first, ticket = begun.popleft()
                found: Record | str = jobs.result(ticket)
                done += 1
                if isinstance(found, str):
                    refused += 1
                else:
                    kept.keep(first, found)
                _tell(f"{time.monotonic() - start:6.0f} s {done}/{len(missing)}", first, found)
    return refused


def _record_of(measure: Measurement, cell: Cell, study: StudyProblem) -> Record | str:
    """What a cell came to, or why it came to nothing."""
    try:
        return measure(cell, study)
    except CompileError as error:
        return str(error)


def _tell(when: str, cell: Cell, found: Record | str) -> None:
    what = found.partition("\n")[0] if isinstance(found, str) else f"{found['cpu_s']:.1f} CPU s"
    text = f"{when} {cell.graph} | {cell.method_name} | {cell.seed}: {what}"
    print(text, file=sys.stderr, flush=True)


def measure_cell(cell: Cell, study: StudyProblem) -> Record:
    """The record of a cell.

    Periods are seconds, processor times seconds of the whole process. What has to be compiled is
    compiled before they are taken.
    """
    use_one_thread()
    if not isinstance(cell.method, Method):
        return cell.method.record(study, cell.seed)
    if (warm := (cell.method, cell.setting)) not in _WARM:
        # JAX compiles an update once per recipe, size of graphs, and process.
        few = replace(cell.method, samples=min(WARMING_SAMPLES, cell.method.samples))
        run_method(few, study, 0, RecordedPeriods(study, ()))
        _WARM.add(warm)
    record = RecordedPeriods(study, sample_counts(cell.method.samples))
    run_method(cell.method, study, cell.seed, record)
    return {
        "baseline_s": study.baseline_s,
        "steps": record.steps,
        "samples": record.samples,
        "valid": record.valid,
        "cpu_s": record.cpu_s,
        "cpu_at_marks": record.cpu_at_marks,
    }


_WARM: set[tuple[Method, Setting]] = set()
"""What this process has run already."""
