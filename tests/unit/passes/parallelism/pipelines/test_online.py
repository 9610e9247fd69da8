"""Learning to cut one model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_models.dqn.settings import PUBLISHED
from mcm_models.pipelines.kernels import length_s
from mcm_models.pipelines.tables import pipeline_tables
from mcm_passes.parallelism.pipelines.online import learn_online
from mcm_passes.parallelism.pipelines.optimal_pipeline import best_pipeline
from tests.generators.pipeline_cases import random_problem


def test_learning_at_hand_solves_a_small_problem() -> None:
    problem = random_problem(6, stages=3, micro_batches=8)
    exact = best_pipeline(problem)
    settings = dataclasses.replace(PUBLISHED["pp"], updates=4)
    outcome = learn_online(problem, seed=0, settings=settings, iterations=200)
    assert exact is not None
    found = outcome.pipeline
    assert found is not None
    assert found.length_s <= 1.02 * exact.length_s
    parts = np.array([0, *found.cuts, problem.num_parts])
    places = np.array([0, *found.devices, problem.devices.num_devices])
    assert found.length_s == pytest.approx(length_s(pipeline_tables(problem), parts, places))
    again = learn_online(problem, seed=0, settings=settings, iterations=200)
    assert again.pipeline == found
