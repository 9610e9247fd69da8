"""Learning to cut one model."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from automap_dqn.pipeline_environment import PlanningEnvironment
from automap_dqn.pipeline_learning import candidate_cuts, learn_online
from deep_q_study.learner import PUBLISHED, Learner

from mcm_compiler.api import build_zoo_model
from mcm_compiler.ir.reading.importer import import_model
from mcm_hardware.families.cluster.cluster_package import config_a
from mcm_models.pipelines.kernels import length_s
from mcm_models.pipelines.problem import pipeline_tables
from mcm_passes.parallelism.pipelines.node_chain import PipelineSettings, prepare
from mcm_passes.parallelism.pipelines.optimal_pipeline import best_pipeline
from tests.generators.pipeline_cases import random_problem

BERT = "bert{layers=6,hidden=256,heads=4,intermediate=1024,vocab=500,batch=16,shape_only=true}"


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


def test_every_op_may_begin_a_stage_and_candidates_map_near_servers():
    problem = prepare(
        import_model(build_zoo_model(BERT), BERT)[0], config_a(), PipelineSettings()
    ).problem
    few = candidate_cuts(problem)
    work = np.concatenate([[0.0], np.cumsum(problem.forward_s + problem.backward_s)])
    mapped = np.rint(work / work[-1] * 16)[list(few.cuts)]
    assert set(mapped.tolist()) <= set(range(5, 12))
    assert few.problem.device_cuts == tuple(range(5, 12))
    assert 0 < len(few.cuts) < problem.num_parts - 1
    found = best_pipeline(few.problem)
    assert few.in_whole(found).length_s == pytest.approx(found.length_s)
    assert best_pipeline(problem).length_s <= found.length_s * (1 + 1e-12)


def test_the_share_of_random_actions_reaches_its_end_and_the_control_learns_nothing():
    problem = random_problem(6, stages=3, micro_batches=8)
    learned = learn_online(problem, 0, iterations=40)
    assert learned.last_epsilon == pytest.approx(0.1)
    settings = replace(PUBLISHED["pp"], updates=8, learning_rate=0.0)
    environment = PlanningEnvironment(candidate_cuts(problem).problem)
    learner = Learner(environment, environment.layout, settings, 0, 40)
    before = {name: array.copy() for name, array in learner.weights.items()}
    learner.advance(2)
    assert all((learner.weights[name] == array).all() for name, array in before.items())
    assert learn_online(problem, 0, settings, iterations=40).pipeline is not None
