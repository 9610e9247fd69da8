"""Bounds on latencies shown once more: what is true is shown, and nothing else."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from mcm_compiler.contracts.objectives import Objective
from mcm_passes.families.ring.objectives import frontier, latency_bounds
from mcm_passes.families.ring.objectives.checks.objective_checkers import (
    CRITICAL_PATH,
    LABEL_CHAINS,
    SHARED_WORK,
    LabelArgument,
)
from mcm_passes.families.ring.objectives.latency_bounds import critical_path, shared_work
from tests.generators.branching_problems import branching_problem
from tests.generators.objective_problems import objective_problem
from tests.oracles.plain_objectives import all_figures

LATENCY = Objective("latency")
DOCUMENT = Path(__file__).parents[7] / "docs" / "explanation" / "objectives.md"
CLAIMED = {frontier.PROOF, latency_bounds.CRITICAL_PATH, latency_bounds.SHARED_WORK}


def test_every_kind_of_proof_has_a_check_and_is_documented():
    installed = {entry.name for entry in entry_points(group="mcm_compiler.objective_proofs")}
    assert installed == CLAIMED
    assert set(re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)) == CLAIMED


@pytest.mark.parametrize("seed", range(30))
def test_chains_are_ruled_out_up_to_the_optimum(seed):
    problem = objective_problem(seed, most_units=5)
    if not (known := all_figures(problem)):
        assert LABEL_CHAINS.rules_out(problem, LATENCY, 1e3) is not False
        return
    least_s = min(one.latency_s for one in known)
    limit_s = sorted(one.latency_s for one in known)[len(known) // 2]
    fastest_s = min(one.period_s for one in known if one.latency_s <= limit_s * (1.0 + 1e-9))
    for objective, value in ((LATENCY, least_s), (Objective(max_latency_s=limit_s), fastest_s)):
        below = LABEL_CHAINS.rules_out(problem, objective, value * (1.0 - 1e-8))
        above = LABEL_CHAINS.rules_out(problem, objective, value * (1.0 + 1e-6))
        assert (below, above) == (True, False) or (problem.streams and not above)
    for checker in (CRITICAL_PATH, SHARED_WORK):
        assert not checker.rules_out(problem, LATENCY, least_s * (1.0 + 1e-6))


@pytest.mark.parametrize("seed", range(30))
def test_quick_bounds_are_shown_as_they_are_found(seed):
    problem = objective_problem(seed)
    for checker, bound in ((CRITICAL_PATH, critical_path), (SHARED_WORK, shared_work)):
        seconds = bound(problem).seconds
        assert checker.rules_out(problem, LATENCY, seconds * (1.0 - 1e-8))
        assert not checker.rules_out(problem, LATENCY, seconds * (1.0 + 1e-8))
        # Within less than that no placement answers, whatever its period.
        assert checker.rules_out(problem, Objective(max_latency_s=seconds / 2), float("inf"))
        assert checker.rules_out(problem, Objective(max_latency_s=seconds * 2), 1e-9) is None


def test_what_takes_too_long_is_left_open():
    problem = branching_problem(chains=2, length=3, chips=3)
    few = LabelArgument(most_windows=1)
    assert few.rules_out(problem, LATENCY, float(problem.compute_s.sum())) is None
    assert "too many" in few.undecided
