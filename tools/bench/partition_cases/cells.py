"""One cell of the table: one strategy on one problem, in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from partition_cases.cases import Case

from mcm_compiler import spec_text
from mcm_compiler.partition import Budget, PartitionStrategy
from mcm_compiler.registry import STRATEGIES
from mcm_passes.partitioning.fast_model import evaluate
from mcm_passes.partitioning.fast_periods import FastPeriods
from mcm_passes.strategies.levels import EFFORT_S, evaluations_of_level

LEVEL = 2
"""Effort of every cell, that of `-O2`."""

SEEDS = (0, 1, 2)

RANDOM = frozenset({"random", "annealing", "local_search", "judge_search"})
"""Strategies whose answer depends on the seed."""

LEFT_OUT = frozenset({"manual"})
"""Strategies that cannot run without an option."""

DISTRIBUTION = "mcm-compiler"


@dataclass(frozen=True)
class Cell:
    """What one run came to.

    Attributes:
        strategy: its text form.
        seed: of its randomness.
        period_s: under the fast model; infinite where it found nothing.
        bound_s: the better of the problem's bound and what the strategy proved.
        simulated_s: the simulator's period, or None where it refuses the partition.
        chips: chips used.
        cpu_s: processor seconds of the search.
        peak_rss_mib: largest resident set of its process.
    """

    strategy: str
    seed: int
    period_s: float
    bound_s: float
    simulated_s: float | None
    chips: int
    cpu_s: float
    peak_rss_mib: float

    @property
    def gap(self) -> float:
        """How far from optimal it can be at most."""
        return self.period_s / self.bound_s - 1.0


def strategies() -> list[str]:
    """The built-in strategies that can run on their own, sorted."""
    return sorted(
        registration.name
        for registration in STRATEGIES.registrations()
        if registration.origin.startswith(DISTRIBUTION) and registration.name not in LEFT_OUT
    )


def run_cells(case: Case, names: Sequence[str]) -> list[Cell]:
    """All cells of one case, as many at a time as there are processors."""
    jobs = [(name, seed) for name in names for seed in (SEEDS if name in RANDOM else SEEDS[:1])]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting = [pool.submit(_in_child, case, name, seed) for name, seed in jobs]
        return [cell.result() for cell in waiting]


def warm_up(case: Case, names: Sequence[str]) -> None:
    """Runs every strategy once on a small case, so that loading compiled code is not measured."""
    for name in names:
        budget = Budget(evaluations=100, effort_s=0.1, judge=case.judge)
        evaluator = FastPeriods(case.problem)
        _strategy(name).solve(case.problem, evaluator, np.random.default_rng(0), budget)


def _strategy(name: str) -> PartitionStrategy:
    return spec_text.instantiate(STRATEGIES.get(name), spec_text.parse_one(name))


def _in_child(case: Case, name: str, seed: int) -> Cell:
    """Runs a cell in a forked process: the problem is there already, and memory is its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(case, name, seed, sender))
    process.start()
    sender.close()
    try:
        cell = receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"'{name}' on {case.model} ended with {process.exitcode}") from None
    process.join()
    return cell


def _run(case: Case, name: str, seed: int, sender: Connection) -> None:
    problem = case.problem
    budget = Budget(
        evaluations=evaluations_of_level(LEVEL, problem),
        effort_s=EFFORT_S[LEVEL],
        judge=case.judge,
    )
    rng = np.random.default_rng(seed)
    start = time.process_time()
    outcome = _strategy(name).solve(problem, FastPeriods(problem), rng, budget)
    cpu_s = time.process_time() - start
    # The kernel counts in KiB on Linux and in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    period_s, simulated_s, chips = float("inf"), None, 0
    if outcome.chip_of is not None:
        evaluation = evaluate(problem, outcome.chip_of)
        if not evaluation.valid:
            raise ValueError(f"'{name}' on {case.model}: {evaluation.violations[0].message}")
        period_s = evaluation.period_s
        chips = int(evaluation.chip_of.max()) + 1
        verdict_s = float(case.judge.judge(evaluation.chip_of[None]).period_s[0])
        simulated_s = verdict_s if np.isfinite(verdict_s) else None
    proven = outcome.bound.seconds if outcome.bound is not None else 0.0
    bound_s = min(max(case.bound_s, proven), period_s)
    cell = Cell(name, seed, period_s, bound_s, simulated_s, chips, cpu_s, peak)
    sender.send(cell)
    sender.close()
