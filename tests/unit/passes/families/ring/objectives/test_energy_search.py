"""The least energy by chains of ideals, and what is told where there are too many of them."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.objectives.frontier import Frontier
from mcm_passes.families.ring.objectives.label_search import LabelLattice
from mcm_passes.families.ring.objectives.ring_objectives import RingEnergy
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.rule_graph import rule_graph
from tests.generators.objective_problems import objective_problem, random_energies
from tests.generators.partition_problems import make_problem
from tests.oracles.plain_objectives import all_figures

ENERGY = Objective("energy")


def solved(problem, strategy=None):
    value = RingEnergy(problem)
    budget = Budget(objective=ENERGY)
    found = (strategy or Frontier()).solve(problem, value, np.random.default_rng(0), budget)
    return found, value


def chain(units, chips, sram, link_j):
    """Equal units in a row, each with a weight of 1000 bytes."""
    problem = make_problem(
        [1] * units, [(u, u + 1) for u in range(units - 1)], chips=chips, tensor_bytes=64,
        sram=sram, weights=[(1024, [u]) for u in range(units)],
    ).at_need()  # fmt: skip
    energy = random_energies(problem, np.random.default_rng(0))
    energy = dataclasses.replace(energy, link_byte_j=link_j, unit_j=np.full(units, 1e-9))
    return dataclasses.replace(problem, energy=energy)


def test_as_few_chips_are_taken_as_memory_allows():
    found, value = solved(chain(units=6, chips=6, sram=3 * 1024 + 640, link_j=1e-9))
    assert int(found.chip_of.max()) + 1 == 2
    assert found.bound.seconds == pytest.approx(value(found.chip_of))
    assert found.bound.proof == "energy_chains"


def test_of_equal_energies_the_fastest_is_taken():
    problem = chain(units=6, chips=2, sram=5 * 1024 + 640, link_j=1e-9)
    found, _ = solved(problem)
    # 1 to 5 units on the first chip cost the same; 3 of them answer most often.
    assert np.bincount(found.chip_of).tolist() == [3, 3]


@pytest.mark.parametrize("seed", range(12))
def test_a_tie_is_settled_by_the_period(seed):
    problem = objective_problem(seed, most_units=5)
    if not (known := all_figures(problem)):
        return
    found, value = solved(problem)
    least_j = min(one.energy_j for one in known)
    assert value(found.chip_of) == pytest.approx(least_j)
    alike = [one for one in known if one.energy_j <= least_j * (1.0 + 1e-9)]
    fewest = [one.period_s for one in alike if one.chips == int(found.chip_of.max()) + 1]
    assert evaluate(problem, found.chip_of).period_s == pytest.approx(min(fewest))


@pytest.mark.parametrize("few", [Frontier(ideals=1), Frontier(windows=1)])
def test_what_is_too_large_is_told_without_proof(few):
    problem = chain(units=6, chips=6, sram=2 * 1024 + 640, link_j=1e-9)
    exact, value = solved(problem)
    found, _ = solved(problem, few)
    assert found.bound.seconds < value(exact.chip_of) <= value(found.chip_of)
    assert found.bound.proof == "least_energy"


def test_beginnings_of_orders_stand_for_too_many_ideals():
    wide = make_problem(
        [1] * 8, [(0, u) for u in range(1, 7)] + [(u, 7) for u in range(1, 7)], chips=3,
        sram=6 * 1024, tensor_bytes=64, weights=[(1024, [u]) for u in range(8)],
    ).at_need()  # fmt: skip
    wide = dataclasses.replace(wide, energy=random_energies(wide, np.random.default_rng(2)))
    found, energy = solved(wide, Frontier(ideals=20))
    best, _ = solved(wide)
    assert energy(best.chip_of) <= energy(found.chip_of) < float("inf")
    assert found.bound.proof == "least_energy"


def test_nothing_that_fits_is_proven():
    found, _ = solved(chain(units=6, chips=2, sram=1024 + 640, link_j=1e-9))
    assert found.chip_of is None
    assert found.infeasible


def test_the_strict_rule_is_kept():
    for seed in range(8):
        problem = dataclasses.replace(objective_problem(seed, most_units=5), routing="strict")
        known = all_figures(problem)
        found, value = solved(problem)
        if not known:
            assert found.chip_of is None
            continue
        least_j = min(one.energy_j for one in known)
        assert found.bound.seconds <= least_j
        assert found.chip_of is None or value(found.chip_of) >= least_j * (1.0 - 1e-9)


@pytest.mark.parametrize("shared", [True, False])
def test_prices_of_the_beginnings_of_a_long_order_take_no_memory_for_pairs_of_units(shared):
    """All units of a chain read what one of them is copied for, or each what enters alone."""
    n = 1_500
    edges = [(u, u + 1) for u in range(1, n)] + [(0, u) for u in range(1, n + 1)] * shared
    problem = make_problem(
        np.ones(n + 1), edges, chips=2, tensor_bytes=64, clonable=[0] if shared else []
    ).at_need()
    energy = random_energies(problem, np.random.default_rng(0))
    problem = dataclasses.replace(problem, energy=dataclasses.replace(energy, host_byte_j=1e-9))
    lattice = LabelLattice.along(problem, rule_graph(problem).units)
    tracemalloc.start()
    prices = lattice._prices
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n**2
    copied_j = float(problem.energy.unit_j[0]) if shared else 0.0
    given_j = copied_j + 64 * 1e-9
    assert prices.beyond_j[-2] - prices.nodes_j[-2] == pytest.approx(given_j if shared else 0.0)
