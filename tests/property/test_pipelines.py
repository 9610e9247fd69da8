"""The exact search against trying all pipelines, and the formula against its compiled form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_models.pipelines.kernels import balanced_pipeline, descend, length_s
from mcm_models.pipelines.problem import pipeline_tables
from mcm_passes.parallelism.pipelines.optimal_pipeline import best_pipeline, least_memory
from tests.generators.pipeline_cases import every_pipeline, feasible, least_length, random_problem
from tests.oracles.pipeline_length import lengths_of, stage_times

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
@settings(max_examples=60)
def test_exact_search_finds_the_best_of_all(seed: int) -> None:
    problem = random_problem(seed)
    least, found = least_length(problem), best_pipeline(problem)
    if np.isinf(least):
        assert found is None
    else:
        assert found is not None
        assert found.length_s == pytest.approx(least, rel=1e-9)


@given(SEEDS)
@settings(max_examples=40)
def test_formula_and_kernel_agree(seed: int) -> None:
    problem = random_problem(seed)
    tables = pipeline_tables(problem)
    cuts, places = every_pipeline(problem)
    times = stage_times(tables, cuts, places, np)
    lengths = np.where(feasible(tables, times, np), lengths_of(tables, times, np), np.inf)
    ends = problem.num_parts, problem.devices.num_devices
    for row in range(0, len(cuts), max(1, len(cuts) // 20)):
        both = [
            np.array([0, *inner, end], np.int64)
            for inner, end in zip((cuts[row], places[row]), ends, strict=True)
        ]
        assert length_s(tables, *both) == pytest.approx(lengths[row], rel=1e-12)


@given(SEEDS)
@settings(max_examples=40)
def test_least_memory_is_the_least_of_all(seed: int) -> None:
    problem = random_problem(seed)
    tables = pipeline_tables(problem)
    times = stage_times(tables, *every_pipeline(problem), np)
    valid = times.with_weights.all(-1)
    least = times.memory.max(-1)[valid].min(initial=np.inf)
    assert least_memory(problem) == pytest.approx(least, rel=1e-12)


@given(SEEDS)
@settings(max_examples=40)
def test_descent_never_makes_it_worse(seed: int) -> None:
    problem = random_problem(seed)
    tables = pipeline_tables(problem)
    parts, places = balanced_pipeline(tables, problem.stages)
    assert (np.diff(parts) > 0).all()
    assert (np.diff(places) > 0).all()
    before = length_s(tables, parts, places)
    assert descend(tables, parts, places) <= before
    assert (np.diff(parts) > 0).all()
