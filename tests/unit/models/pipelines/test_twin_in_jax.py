"""The formula with arrays of JAX."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.pipelines.problem import pipeline_tables
from tests.generators.pipeline_cases import every_pipeline, random_problem
from tests.oracles.pipeline_length import lengths_of, stage_times


@pytest.mark.parametrize("seed", [0, 4])
def test_jax_gives_the_same_numbers(seed):
    jax = pytest.importorskip("jax")
    problem = random_problem(seed, stages=2)
    tables = pipeline_tables(problem)
    cuts, places = every_pipeline(problem)
    expected = lengths_of(tables, stage_times(tables, cuts, places, np), np)

    @jax.jit
    def lengths(tables, cuts, places):
        return lengths_of(tables, stage_times(tables, cuts, places, jax.numpy), jax.numpy)

    found = lengths(*jax.tree.map(jax.numpy.asarray, (tables, cuts, places)))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4)
