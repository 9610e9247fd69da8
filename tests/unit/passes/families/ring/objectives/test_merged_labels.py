"""Bounds on latencies from merged chains, against trying every placement."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.objectives.frontier import Frontier
from mcm_passes.families.ring.objectives.label_search import LabelLattice
from mcm_passes.families.ring.objectives.ring_objectives import latency_bound, objective_values
from tests.generators.branching_problems import branching_problem
from tests.generators.objective_problems import objective_problem
from tests.generators.partition_problems import make_problem
from tests.oracles.plain_objectives import all_figures

WINDOWS = 100_000


def lattice_of(problem):
    lattice = LabelLattice.of(problem.at_need(), 1000)
    assert lattice is not None
    return lattice


@pytest.mark.parametrize("seed", range(40))
def test_no_placement_answers_earlier(seed):
    problem = objective_problem(seed, most_units=5)
    known = all_figures(problem)
    lattice = lattice_of(problem)
    found_s, complete = lattice.merged(np.inf, np.inf, WINDOWS)
    assert complete
    least_s = min((one.latency_s for one in known), default=np.inf)
    assert found_s <= least_s * (1.0 + 1e-9)
    for period_s in sorted({one.period_s for one in known})[:3]:
        faster = [one.latency_s for one in known if one.period_s < period_s * (1.0 - 1e-9)]
        found_s, _ = lattice.merged(period_s, np.inf, WINDOWS)
        assert found_s <= min(faster, default=np.inf) * (1.0 + 1e-9)


def test_along_a_chain_it_is_the_least_latency():
    # One tensor crosses each ideal of a chain, so that nothing is lost.
    problem = make_problem(
        [4, 6, 3, 5], [(0, 1), (1, 2), (2, 3)], chips=3, tensor_bytes=1000, sram=18_000,
        weights=[(5000, [u]) for u in range(4)],
    ).at_need()  # fmt: skip
    least_s = min(one.latency_s for one in all_figures(problem))
    found_s, _ = lattice_of(problem).merged(np.inf, np.inf, WINDOWS)
    assert found_s == pytest.approx(least_s)
    assert latency_bound(problem).seconds < found_s * (1.0 - 1e-6)


@pytest.mark.parametrize("pins", [[(2, 2)], [(0, 0), (3, 2)], [(1, 1), (2, 1)]])
def test_no_placement_with_pins_answers_earlier(pins):
    # A merged label has the fewest chips of all chains, and pins may need more of them.
    problem = make_problem([4, 6, 3, 5], [(0, 1), (1, 2), (2, 3)], chips=3, pins=pins)
    known = all_figures(problem)
    found_s, _ = lattice_of(problem).merged(np.inf, np.inf, WINDOWS)
    assert found_s <= min(one.latency_s for one in known) * (1.0 + 1e-9)


def test_it_stands_where_there_are_too_many_labels():
    problem = branching_problem(chains=2, length=3, chips=3)
    few, objective = Frontier(labels=2, beam=1), Objective("latency")
    values = objective_values(problem, objective)
    found = few.solve(problem, values, np.random.default_rng(0), Budget(objective=objective))
    assert found.bound.proof == "merged_chains"
    exact = Frontier().solve(problem, values, np.random.default_rng(0), Budget(objective=objective))
    assert latency_bound(problem).seconds < found.bound.seconds <= values(exact.chip_of)


def test_too_many_windows_prove_nothing():
    _, complete = lattice_of(objective_problem(3)).merged(np.inf, np.inf, 1)
    assert not complete
