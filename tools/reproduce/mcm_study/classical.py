"""The classical searches that learned search is held against: the portfolio, and a longer one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Partition
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.levels import DEFAULT
from mcm_passes.mapping.solving.solve import solve
from mcm_study.problems import StudyProblem
from tools.kept_records import Record, digest_of


@dataclass(frozen=True)
class Portfolio:
    """The classical search of `-O2`, and its bound."""

    name: ClassVar[str] = "portfolio"
    digest: ClassVar[str] = "portfolio"

    def record(self, study: StudyProblem, seed: int) -> Record:
        """What it found and proved on a problem; times without what has to be compiled."""
        budget = Budget(
            evaluations=DEFAULT.evaluations(study.problem.num_units),
            effort_s=DEFAULT.effort_s,
            evaluator=study.evaluator,
        )
        _searched(study, DEFAULT.strategy, budget, seed)
        return _searched(study, DEFAULT.strategy, budget, seed)


@dataclass(frozen=True)
class Exact:
    """A longer exact search, for the optimum under the fast model or a bound close to it.

    Attributes:
        strategy: as on the command line.
        effort_s: deterministic seconds.
    """

    name: ClassVar[str] = "exact"

    strategy: str = "cpsat{ideals=1000000}"
    effort_s: float = 600.0

    @property
    def digest(self) -> str:
        """All that decides what is found, but the code."""
        return digest_of(self)

    def record(self, study: StudyProblem, seed: int) -> Record:
        """What it found and proved on a problem."""
        return _searched(study, self.strategy, Budget(effort_s=self.effort_s), seed)


def _searched(study: StudyProblem, strategy: str, budget: Budget, seed: int) -> Record:
    start_s = time.process_time()
    found = solve(
        study.problem,
        strategy_of(strategy),
        np.random.default_rng(seed),
        budget,
        strategy_text=strategy,
    )
    return {
        "baseline_s": study.baseline_s,
        "period_s": _period_s(study, found),
        "bound_s": found.bound.seconds,
        "nodes": int((~study.problem.clonable).sum()),
        "clonable": int(study.problem.clonable.sum()),
        "cpu_s": time.process_time() - start_s,
    }


def _period_s(study: StudyProblem, found: Partition) -> float:
    if study.evaluator is None:
        return found.period_s
    return float(study.evaluator.evaluate(found.chip_of[None]).period_s[0])
