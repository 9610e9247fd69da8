"""Translation with loss: what it reads, what it leaves alone, and its size."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hier_study.training_models import NmtTraining

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY, ModelBuilder
from tests.generators.parameter_count import parameter_count

SMALL = {"layers": 3, "steps": 4, "hidden": 8, "vocab": 11, "batch": 2, "shape_only": False}


def _feeds():
    rng = np.random.default_rng(0)
    source, target, labels = rng.integers(11, size=(3, 2, 4))
    weights = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.float32)
    words = np.array([[1, 1, 1, 0], [1, 0, 0, 0]], np.float32)
    return {
        "source_ids": source,
        "source_weights": weights,
        "target_ids": target,
        "labels": labels,
        "word_weights": words,
    }


def test_is_a_builder_whose_model_is_valid():
    assert isinstance(NmtTraining(**SMALL), ModelBuilder)
    model = NmtTraining(**SMALL).build()
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    names = [node.name for node in model.graph]
    assert len(set(names)) == len(names)


def test_attention_gives_padding_no_share(run):
    """The mask is all there is between the padded words' memory and the loss."""
    feeds = _feeds()
    model = NmtTraining(**SMALL).build()
    for node in model.graph:
        if node.name.endswith("step.0/Softmax"):
            model.graph.outputs.append(node.outputs[0])
    loss, shares = run(model, feeds)
    assert loss.shape == ()
    assert np.isfinite(loss)
    np.testing.assert_array_equal(shares[1, 2:], 0.0)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-6)
    assert (shares[0] > 0).all()


def test_words_without_weight_do_not_count(run):
    model, feeds = NmtTraining(**SMALL).build(), _feeds()
    changed = feeds | {"labels": feeds["labels"].copy(), "target_ids": feeds["target_ids"].copy()}
    changed["labels"][0, 3] = (changed["labels"][0, 3] + 1) % 11
    changed["labels"][1, 1:] = (changed["labels"][1, 1:] + 1) % 11
    changed["target_ids"][1, 1:] = 0
    loss, again = run(model, feeds), run(model, changed)
    np.testing.assert_allclose(loss, again, rtol=1e-6)
    changed["labels"][0, 0] = (feeds["labels"][0, 0] + 1) % 11
    assert abs(run(model, changed)[0] - loss[0]) > 1e-3


def test_full_size_is_shapes_only():
    model = NmtTraining(layers=8).build()
    assert model.metadata_props[WEIGHTS_KEY] == SHAPE_ONLY
    full = NmtTraining(layers=2, shape_only=False).build()
    cell = 4 * 1024
    encoder = 2 * (2 * 1024 * cell + cell) + 3 * 1024 * cell + cell
    decoder = 2 * (3 * 1024 * cell + cell)
    attention = 2 * 1024 * 1024 + 2 * 1024 + 1
    words = 3 * 32_000 * 1024 + 32_000
    zeros = 64 * 1024
    assert parameter_count(full) == encoder + decoder + attention + words + zeros


@pytest.mark.parametrize("option", ["chunk", "steps", "batch"])
def test_refuses_nothing_to_do(option):
    with pytest.raises(ValueError, match=option):
        NmtTraining(**{option: 0})
