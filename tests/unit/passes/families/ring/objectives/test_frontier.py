"""The strategy for throughput against latency, against trying every placement."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.objectives import latency_walk
from mcm_passes.families.ring.objectives.frontier import Frontier
from mcm_passes.families.ring.objectives.ring_objectives import objective_values
from mcm_passes.mapping.machine.evaluation import evaluate
from tests.generators.branching_problems import branching_problem
from tests.generators.objective_problems import objective_problem
from tests.generators.partition_problems import make_problem
from tests.oracles.objective_equality import differences
from tests.oracles.shown_bounds import verify_bound


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_of_trying_everything(seed):
    # tools/objective_oracle.py does it for 300 of them.
    problem = objective_problem(seed, most_units=5)
    assert differences(problem, exact=not problem.limits.at_ends) == []


def solved(problem, objective, strategy=None):
    values = objective_values(problem, objective)
    budget = Budget(objective=objective)
    found = (strategy or Frontier()).solve(problem, values, np.random.default_rng(0), budget)
    return found, values


def test_branches_answer_sooner_side_by_side():
    problem = branching_problem(chains=2, length=3, chips=3)
    found, values = solved(problem, Objective("latency"))
    work_s = float(problem.compute_s.sum())
    assert values(found.chip_of) < work_s
    assert found.bound.seconds == pytest.approx(values(found.chip_of))


def test_a_tighter_limit_costs_throughput():
    problem = branching_problem(chains=2, length=3, chips=3)
    least, latency = solved(problem, Objective("latency"))
    limits = [latency(least.chip_of) * share for share in (1.0, 1.05, 1.3, 3.0)]
    periods = []
    for limit_s in limits:
        found, values = solved(problem, Objective(max_latency_s=limit_s))
        assert latency(found.chip_of) <= limit_s * (1.0 + 1e-9)
        assert found.bound.seconds == pytest.approx(values(found.chip_of))
        periods.append(evaluate(problem, found.chip_of).period_s)
    assert periods == sorted(periods, reverse=True)
    assert periods[0] > periods[-1]


def test_nothing_in_time_is_proven():
    problem = branching_problem(chains=2, length=3, chips=3)
    found, _ = solved(problem, Objective(max_latency_s=1e-6))
    assert found.chip_of is None
    assert found.infeasible
    assert "answers within" in found.reason


def test_what_is_too_large_is_told_without_proof():
    problem = branching_problem(chains=2, length=3, chips=3)
    exact, values = solved(problem, Objective("latency"))
    few, _ = solved(problem, Objective("latency"), Frontier(labels=2, beam=1))
    assert few.bound.seconds < values(exact.chip_of) <= values(few.chip_of)
    none, _ = solved(problem, Objective("latency"), Frontier(ideals=1))
    assert none.bound.seconds < values(exact.chip_of) <= values(none.chip_of)


def test_the_strict_rule_is_kept():
    problem = branching_problem(routing="strict", chains=2, length=3, chips=3)
    found, values = solved(problem, Objective("latency"))
    assert values(found.chip_of) < float("inf")
    assert found.bound.seconds <= values(found.chip_of)


def test_what_it_proves_of_the_period_is_shown_again():
    problem = branching_problem(chains=2, length=3, chips=3)
    found, values = solved(problem, Objective())
    assert found.bound.seconds == pytest.approx(values(found.chip_of))
    assert found.bound.proof == "ideals"
    assert verify_bound(problem, found.bound)


def test_beginnings_of_orders_answer_where_there_are_too_many_ideals():
    problem = branching_problem(chains=3, length=3, chips=4)
    found, values = solved(problem, Objective("latency"), Frontier(ideals=problem.num_units + 1))
    assert values(found.chip_of) < 0.75 * float(problem.compute_s.sum())


def test_beginnings_of_orders_prove_no_period_within_a_limit():
    problem = branching_problem(chains=3, length=3, chips=4)
    least, latency = solved(problem, Objective("latency"))
    limited = Objective(max_latency_s=1.01 * latency(least.chip_of))
    exact, values = solved(problem, limited)
    few, _ = solved(problem, limited, Frontier(ideals=problem.num_units + 1))
    assert few.bound.seconds <= values(exact.chip_of) * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_walks_are_never_below_all_chains(seed, monkeypatch):
    monkeypatch.setattr(latency_walk, "PLAYED", 200_000)
    problem = objective_problem(seed, most_units=8)
    least, values = solved(problem, Objective("latency"))
    walked, _ = solved(problem, Objective("latency"), Frontier(walked=True))
    again, _ = solved(problem, Objective("latency"), Frontier(walked=True))
    if least.chip_of is None:
        assert walked.chip_of is None
        return
    assert values(least.chip_of) <= values(walked.chip_of) * (1.0 + 1e-9)
    assert values(walked.chip_of) < float("inf")
    assert np.array_equal(walked.chip_of, again.chip_of)


def test_lists_run_tiles_of_layers_on_two_chips_at_once(monkeypatch):
    # Both tiles of a layer read both of the layer before: every other layer can run at once.
    layers, most = 6, 40
    edges = [(u, v) for u in range(2 * layers - 2) for v in (u // 2 * 2 + 2, u // 2 * 2 + 3)]
    weights = [(64 * most, (u,)) for u in range(2 * layers)]
    problem = make_problem(
        [100.0] * 2 * layers, edges, chips=8, weights=weights, sram=64 * 8 * most, tensor_bytes=64
    )
    monkeypatch.setattr(latency_walk, "PLAYED", 1)
    listed, values = solved(problem, Objective("latency"), Frontier(walked=True))
    assert values(listed.chip_of) < 0.8 * float(problem.compute_s.sum())


def test_walks_find_chips_for_branches():
    problem = branching_problem(chains=3, length=4, chips=4)
    least, values = solved(problem, Objective("latency"))
    walked, _ = solved(problem, Objective("latency"), Frontier(walked=True))
    assert values(walked.chip_of) == pytest.approx(values(least.chip_of))
