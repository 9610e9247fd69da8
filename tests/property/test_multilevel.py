"""Multilevel partitioning: coarser problems, and what it promises."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.strategies.multilevel import Multilevel, coarsen
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.generators.partition_problems import make_problem, problems


def start_of(problem, budget=Budget()):  # noqa: B008 - frozen
    return ContiguousDp().solve(problem, AnalyticPeriods(problem), np.random.default_rng(0), budget)


@given(problems(max_units=10), st.integers(0, 2), st.booleans())
@settings(max_examples=60)
def test_a_coarser_problem_has_the_same_loads(problem, level, at_need):
    problem = problem.at_need() if at_need else problem
    start = start_of(problem).chip_of
    if start is None:
        return
    coarser = coarsen(problem, start, level, 1)
    assert coarser.problem.num_units <= problem.num_units
    chip_of = coarser.coarse(start)
    fine, coarse = evaluate(problem, start), evaluate(coarser.problem, chip_of)
    # In an estimate, all that a merged unit's parts read one after the other is live at once.
    fits = (coarse.memory_bytes <= fine.memory_bytes).all()
    assert fits or problem.streams or not at_need
    assert coarse.valid or {v.rule for v in coarse.violations} == {"memory"}
    assert coarse.valid or not fits
    fixed = ~problem.clonable
    assert (chip_of[coarser.unit_of[fixed]] == start[fixed]).all()
    assert (coarse.weight_bytes == fine.weight_bytes).all()
    for name in ("chip_busy_s", "channel_busy_s"):
        np.testing.assert_allclose(getattr(coarse, name), getattr(fine, name), rtol=1e-12)
    source, target = (
        np.repeat(coarser.problem.tensor_producer, np.diff(coarser.problem.tensor_ptr)),
        coarser.problem.tensor_consumers,
    )
    assert (source < target).all(), "units are in a topological order"


@given(problems(max_units=12), st.integers(1, 6), st.integers(1, 3), st.integers(0, 9))
@settings(max_examples=25)
def test_answers_are_valid_and_never_worse_than_the_start(problem, coarsest, tries, seed):
    budget = Budget(evaluations=400)
    start = start_of(problem, budget)
    strategy = Multilevel(coarsest=coarsest, tries=tries)
    outcome = strategy.solve(problem, AnalyticPeriods(problem), np.random.default_rng(seed), budget)
    assert outcome.evaluations <= 400
    if start.chip_of is None:
        assert outcome.chip_of is not None or outcome.reason
        return
    assert outcome.chip_of is not None
    assert period(problem, outcome.chip_of) <= period(problem, start.chip_of)


def test_it_finds_the_optimum_where_contiguous_cuts_do_not():
    """Three chains of three units between a source and a sink; brute force over 3 chips."""
    work = [1, 9, 2, 7, 3, 8, 5, 4, 6, 2, 1]
    chains = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    edges = [(0, chain[0]) for chain in chains] + [(chain[-1], 10) for chain in chains]
    edges += [pair for chain in chains for pair in itertools.pairwise(chain)]
    problem = make_problem(work, edges, relay_us=0.1)
    rows = np.array(list(itertools.product(range(3), repeat=9)), np.int32)
    rows = np.hstack([np.zeros((len(rows), 1), np.int32), rows, np.full((len(rows), 1), 2)])
    best = AnalyticPeriods(problem, few=0).periods(rows.astype(np.int32)).min()
    outcome = Multilevel(heat=3.0, patience=20).solve(
        problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(evaluations=30_000)
    )
    found, cut = period(problem, outcome.chip_of), period(problem, start_of(problem).chip_of)
    assert found <= best * (1 + 1e-9) < cut
