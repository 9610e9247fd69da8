"""Measuring cells, each a pure function of what it names, on processes or on a cluster."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.one_thread import use_one_thread
from mcm_compiler.partition import Budget
from mcm_passes.learning.jobs import open_jobs
from mcm_passes.partitioning.solve import solve
from mcm_passes.strategies.levels import EFFORT_S, STRATEGY_OF_LEVEL, evaluations_of_level
from mcm_passes.strategies.named import strategy_of
from mcm_study.cells import Cell, KeptCells, Record
from mcm_study.curves import sample_counts
from mcm_study.methods import Method, run_method
from mcm_study.problems import Setting, StudyProblem, study_problem
from mcm_study.recording import RecordedPeriods

PORTFOLIO_LEVEL = 2
"""Effort of the classical search that learned search is held against: that of `-O2`."""

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
    if cell.method is None:
        return _portfolio(study, cell.seed)
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


def _portfolio(study: StudyProblem, seed: int) -> Record:
    """The default level's classical search, its bound, and what it had when."""
    strategy, text = strategy_of(STRATEGY_OF_LEVEL[PORTFOLIO_LEVEL]), "portfolio"
    budget = Budget(
        evaluations=evaluations_of_level(PORTFOLIO_LEVEL, study.problem),
        effort_s=EFFORT_S[PORTFOLIO_LEVEL],
        judge=study.judge,
    )
    # Twice: what has to be compiled is compiled in the first.
    cpu_s, found = 0.0, None
    for _ in range(2):
        start_s = time.process_time()
        rng = np.random.default_rng(seed)
        found = solve(study.problem, strategy, rng, budget, strategy_text=text, cost_model="")
        cpu_s = time.process_time() - start_s
    assert found is not None
    period_s = found.period_s
    if study.judge is not None:
        period_s = float(study.judge.judge(found.chip_of[None]).period_s[0])
    return {
        "baseline_s": study.baseline_s,
        "period_s": period_s,
        "bound_s": found.bound.seconds,
        "nodes": int((~study.problem.clonable).sum()),
        "clonable": int(study.problem.clonable.sum()),
        "cpu_s": cpu_s,
    }
