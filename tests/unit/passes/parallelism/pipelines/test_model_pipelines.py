"""Layers, memory and cuts of real graphs."""

from __future__ import annotations

import numpy as np

from mcm_compiler.api import build_zoo_model
from mcm_compiler.ir.reading.importer import import_model
from mcm_hardware.families.cluster.cluster_package import config_a, config_c
from mcm_passes.parallelism.pipelines.node_chain import PipelineSettings, prepare
from tests.generators.automap_positions import in_positions, prepare_positions

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
