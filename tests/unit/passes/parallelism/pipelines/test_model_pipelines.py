"""Layers, memory and cuts of real graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.api import build_zoo_model
from mcm_compiler.ir.reading.importer import import_model
from mcm_hardware.families.cluster.cluster_package import config_a, config_c
from mcm_models.dqn.learner import Learner
from mcm_models.dqn.settings import PUBLISHED
from mcm_models.pipelines.planning_environment import PlanningEnvironment
from mcm_passes.parallelism.pipelines.node_chain import PipelineSettings, prepare
from mcm_passes.parallelism.pipelines.online import candidate_cuts, learn_online
from mcm_passes.parallelism.pipelines.optimal_pipeline import best_pipeline
from tests.generators.automap_positions import in_positions, prepare_positions
from tests.generators.pipeline_cases import random_problem

BERT = "bert{layers=6,hidden=256,heads=4,intermediate=1024,vocab=500,batch=16,shape_only=true}"
T5 = (
    "t5{layers=3,decoder_layers=4,hidden=256,heads=4,intermediate=1024,vocab=2000,batch=8,"
    "shape_only=true}"
)


def model(spec):
    return import_model(build_zoo_model(spec), spec)[0]


def test_layers_are_found():
    bert = prepare(model(BERT), config_a(), PipelineSettings())
    assert len(bert.boundaries) == 5
    names = bert.chain.names
    assert all(f"layer.{k + 1}/" in names[cut] for k, cut in enumerate(bert.boundaries))
    t5 = prepare(model(T5), config_a(), PipelineSettings())
    assert len(t5.boundaries) == 3 + 4 - 1
    assert "decoder/block.1/" in t5.chain.names[t5.boundaries[3]]


def test_one_activation_crosses_between_layers():
    bert = prepare(model(BERT), config_a(), PipelineSettings())
    crossing = bert.chain.cut_bytes[list(bert.boundaries)]
    assert crossing.tolist() == [16 * 128 * 256 * 4] * 5


def test_decoder_layers_also_read_what_the_encoder_made():
    t5 = prepare(model(T5), config_a(), PipelineSettings())
    encoder, decoder = t5.chain.cut_bytes[[t5.boundaries[0], t5.boundaries[-1]]]
    assert decoder == 2 * encoder


def test_shapes_alone_give_the_same_problem_as_weights():
    with_weights = prepare(
        model(BERT.replace("shape_only=true", "shape_only=false")), config_a(), PipelineSettings()
    )
    without = prepare(model(BERT), config_a(), PipelineSettings())
    assert with_weights.boundaries == without.boundaries
    np.testing.assert_allclose(
        with_weights.problem.weight_bytes, without.problem.weight_bytes, rtol=1e-6
    )


def test_optimiser_state_counts():
    bert = model(BERT)
    bytes_of = {
        name: prepare(bert, config_a(), PipelineSettings(optimizer=name)).problem.state_bytes.sum()
        for name in ("sgd", "momentum", "adam", "adafactor")
    }
    once = prepare(bert, config_a(), PipelineSettings(training=False)).problem.state_bytes.sum()
    assert bytes_of["sgd"] == bytes_of["adafactor"] == 2 * once
    assert bytes_of["momentum"] == 3 * once
    assert bytes_of["adam"] == 4 * once


def test_positions_are_shares_of_the_work():
    prepared = prepare_positions(model(BERT), config_c(), PipelineSettings(), count=16)
    assert prepared.problem.num_parts <= 16
    places = in_positions(prepared, tuple(range(1, prepared.problem.num_parts)))
    assert (np.diff(places) > 0).all()
    assert max(places) < 128


def test_positions_lie_evenly_over_work_or_over_instructions():
    bert = model(BERT)
    by = {
        spacing: prepare_positions(
            bert, config_c(), PipelineSettings(), count=16, spacing=spacing
        ).part_starts
        for spacing in ("work", "instructions")
    }
    ops = len(prepare(bert, config_c(), PipelineSettings()).chain.names)
    assert by["instructions"] == tuple(round(ops * k / 16) for k in range(17))
    assert by["work"] != by["instructions"]


def test_every_op_may_begin_a_stage_and_candidates_map_near_servers():
    problem = prepare(model(BERT), config_a(), PipelineSettings()).problem
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
