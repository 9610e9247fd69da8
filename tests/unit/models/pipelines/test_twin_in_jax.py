"""The formula with arrays of JAX."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.pipelines.length import lengths_of, stage_times
from mcm_models.pipelines.tables import pipeline_tables
from tests.generators.pipeline_cases import every_pipeline, random_problem


@pytest.mark.parametrize("seed", range(5))
def test_jax_gives_the_same_numbers(seed):
    jax = pytest.importorskip("jax")
    problem = random_problem(seed, stages=2)
    tables = pipeline_tables(problem)
    cuts, places = every_pipeline(problem)
    expected = lengths_of(tables, stage_times(tables, cuts, places, np), np)
    moved = jax.tree.map(jax.numpy.asarray, tables)
    times = stage_times(moved, *map(jax.numpy.asarray, (cuts, places)), jax.numpy)
    found = lengths_of(moved, times, jax.numpy)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4)
