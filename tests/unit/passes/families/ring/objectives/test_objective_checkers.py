"""Bounds on latencies shown once more: what is true is shown, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.plugin_kinds import installed_entries
from mcm_passes.families.ring.objectives import frontier, ring_objectives
from mcm_passes.families.ring.objectives.label_search import LabelLattice
from mcm_passes.families.ring.objectives.ring_objectives import critical_path, shared_work
from mcm_passes.families.ring.proof_checkers import (
    CRITICAL_PATH,
    ENERGY_CHAINS,
    LABEL_CHAINS,
    LEAST_ENERGY,
    MERGED_CHAINS,
    SHARED_WORK,
    no_chain_in_time,
    no_chain_takes_less,
)
from tests.generators.branching_problems import branching_problem
from tests.generators.objective_problems import objective_problem
from tests.generators.partition_problems import make_problem
from tests.oracles.plain_objectives import all_figures

LATENCY, ENERGY = Objective("latency"), Objective("energy")
DOCUMENT = Path(__file__).parents[6] / "docs" / "explanation" / "objective-search.md"
CLAIMED = {
    frontier.PROOF,
    frontier.MERGED,
    ring_objectives.CRITICAL_PATH,
    ring_objectives.SHARED_WORK,
    ring_objectives.SHARED_HOST,
    frontier.ENERGY,
    ring_objectives.LEAST_ENERGY,
}


def test_every_kind_of_proof_has_a_check_and_is_documented():
    installed = {entry.name for entry in installed_entries("objective-proof")}
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
        assert not above
        # With streams, and where the host reaches only the ends, not all can be shown.
        assert below or problem.streams or problem.limits.at_ends
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


@pytest.mark.parametrize("seed", range(40))
def test_merged_chains_are_ruled_out_as_they_are_found(seed):
    problem = objective_problem(seed, most_units=5)
    lattice = LabelLattice.of(problem, 1000)
    bound_s, _ = lattice.merged(np.inf, np.inf, 100_000)
    if len(set(problem.limits.chip_speed)) > 1:
        assert MERGED_CHAINS.rules_out(problem, LATENCY, 1e-9) is None
        return
    if not np.isfinite(bound_s):
        assert MERGED_CHAINS.rules_out(problem, LATENCY, 1e3)
        return
    early, late = Objective(max_latency_s=bound_s * 0.99), Objective(max_latency_s=bound_s * 1.01)
    if not problem.streams:
        # Streamed weights delay what is played here without them.
        assert MERGED_CHAINS.rules_out(problem, LATENCY, bound_s * (1.0 - 1e-8))
        assert MERGED_CHAINS.rules_out(problem, early, np.inf)
    assert not MERGED_CHAINS.rules_out(problem, LATENCY, bound_s * (1.0 + 1e-6))
    assert not MERGED_CHAINS.rules_out(problem, late, np.inf)


@pytest.mark.parametrize("seed", range(40))
def test_energies_are_ruled_out_up_to_the_optimum(seed):
    problem = objective_problem(seed, most_units=5)
    if not (known := all_figures(problem)):
        assert ENERGY_CHAINS.rules_out(problem, ENERGY, 1e3)
        return
    least_j = min(one.energy_j for one in known)
    shown = ENERGY_CHAINS.rules_out(problem, ENERGY, least_j * (1.0 - 1e-8))
    assert shown or problem.limits.at_ends
    assert ENERGY_CHAINS.rules_out(problem, ENERGY, least_j * (1.0 + 1e-6)) is False
    bound = ring_objectives.least_energy(problem).seconds
    assert LEAST_ENERGY.rules_out(problem, ENERGY, bound * (1.0 - 1e-8))
    assert not LEAST_ENERGY.rules_out(problem, ENERGY, bound * (1.0 + 1e-8))


@pytest.mark.parametrize("checker", [CRITICAL_PATH, SHARED_WORK, LABEL_CHAINS])
def test_an_argument_about_times_says_nothing_of_energy(checker):
    problem = objective_problem(0)
    assert checker.rules_out(problem, ENERGY, 1e-30) is None


@pytest.mark.parametrize("checker", [LEAST_ENERGY, ENERGY_CHAINS])
def test_an_argument_about_energy_says_nothing_of_times(checker):
    problem = objective_problem(0)
    assert checker.rules_out(problem, LATENCY, 1e-30) is None
    assert checker.rules_out(problem, Objective(max_latency_s=1e-3), 1e-30) is None


def test_too_many_ideals_leave_an_energy_open():
    problem = objective_problem(3)
    assert problem.num_units > 3
    least_j = ring_objectives.least_energy(problem).seconds
    assert no_chain_takes_less(problem, ENERGY, least_j * 1.5, most_windows=1) is None


def test_what_takes_too_long_is_left_open():
    problem = branching_problem(chains=2, length=3, chips=3)
    work_s = float(problem.compute_s.sum())
    for merges in (False, True):
        assert no_chain_in_time(problem, LATENCY, work_s, most_windows=1, merges=merges) is None
    for checker in (LABEL_CHAINS, MERGED_CHAINS):
        assert "too many" in checker.undecided


@pytest.mark.parametrize("checker", [LABEL_CHAINS, MERGED_CHAINS])
@pytest.mark.parametrize("chips", [1, 2])
def test_copies_of_views_prolong_no_latency(checker, chips):
    edges = [(0, 1), (1, 2)]
    problem = make_problem([2, 3, 4], edges, chips=chips, copies=[(2, -1, 4.0)]).at_need()
    known = all_figures(problem)
    least_s = min(one.latency_s for one in known)
    assert checker.rules_out(problem, LATENCY, least_s * (1.0 + 1e-6)) is False
    fastest_s = min(one.period_s for one in known if one.latency_s <= least_s * (1.0 + 1e-9))
    limited = Objective(max_latency_s=least_s)
    assert checker.rules_out(problem, limited, fastest_s * (1.0 + 1e-6)) is False
