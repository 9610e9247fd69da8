"""Models with labels and loss, and the sizes of Auto-MAP's workloads."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY, ModelBuilder
from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.image_networks import Vgg19
from mcm_models.zoo.t5 import T5, relative_bucket
from tests.generators.automap_models import (
    T5Automap,
    T5ElevenBillion,
    T5ThreeBillion,
    Vgg19Training,
)
from tests.generators.parameter_count import parameter_count

_T5 = {
    "layers": 2,
    "decoder_layers": 2,
    "hidden": 32,
    "heads": 2,
    "head_width": 24,
    "intermediate": 64,
    "vocab": 50,
    "seq": 12,
    "decoder_seq": 10,
    "batch": 4,
}
_VGG = {"image_size": 32, "classes": 10, "batch": 3}
_BUILDERS = (T5Automap(**_T5), Vgg19Training(**_VGG))


def _t5_feeds(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    ahead = ~np.tri(10, dtype=bool)
    return {
        "input_ids": rng.integers(50, size=(4, 12)),
        "attention_mask": np.ones((4, 12), dtype=np.int64),
        "decoder_input_ids": rng.integers(50, size=(4, 10)),
        "decoder_attention_mask": np.ones((4, 10), dtype=np.int64),
        "labels": rng.integers(50, size=(4, 10)),
        "loss_weights": np.ones((4, 10), dtype=np.float32),
        "example_weights": np.ones(4, dtype=np.float32),
        "encoder_buckets": relative_bucket(12, 32, 128, bidirectional=True),
        "decoder_buckets": relative_bucket(10, 32, 128, bidirectional=False),
        "causal_mask": np.where(ahead, np.float32(-1e9), np.float32(0)),
    }


def _vgg_feeds(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "input": rng.standard_normal((3, 3, 32, 32), dtype=np.float32),
        "labels": rng.integers(10, size=3),
        "class_weights": np.ones(10, dtype=np.float32),
        "loss_scale": np.array(2.0, dtype=np.float32),
    }


@pytest.mark.parametrize("builder", _BUILDERS, ids=lambda b: b.name)
def test_is_a_builder_whose_model_is_valid_and_repeatable(builder):
    assert isinstance(builder, ModelBuilder)
    model = builder.build()
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.SerializeToString() == ir.to_proto(builder.build()).SerializeToString()
    names = [node.name for node in model.graph]
    assert len(set(names)) == len(names)
    used = {value.name for node in model.graph for value in node.inputs if value is not None}
    assert set(model.graph.initializers) <= used
    assert {value.name for value in model.graph.inputs} <= used


def test_t5_has_seven_inputs_of_ten_with_a_batch_dimension():
    inputs = T5Automap(**_T5).build().graph.inputs
    assert len(inputs) == 10
    assert sum(value.shape[0] == 4 for value in inputs) == 7
    assert len(Vgg19Training(**_VGG).build().graph.inputs) == 4


def test_t5_is_the_mean_of_the_cross_entropies(run):
    """Against the same weights in the model that gives logits."""

    class Biased(T5):
        _dense = T5Automap._dense

    feeds = _t5_feeds()
    (loss,) = run(T5Automap(**_T5).build(), feeds)
    logits_of = Biased(**_T5).build()
    given = {value.name for value in logits_of.graph.inputs}
    (logits,) = run(logits_of, {name: feeds[name] for name in given})
    shifted = logits - logits.max(-1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_probability, feeds["labels"][..., np.newaxis], -1)
    np.testing.assert_allclose(loss, -chosen.mean(), rtol=1e-5)
    assert loss.shape == ()


def test_t5_weighs_tokens_and_examples(run):
    model = T5Automap(**_T5).build()
    feeds = _t5_feeds()
    (everything,) = run(model, feeds)
    parts = []
    for example in range(4):
        weights = np.zeros(4, dtype=np.float32)
        weights[example] = 1
        parts.append(run(model, feeds | {"example_weights": weights})[0])
    np.testing.assert_allclose(everything, np.mean(parts), rtol=1e-5)
    halved = {"loss_weights": feeds["loss_weights"] / 2}
    np.testing.assert_allclose(everything, run(model, feeds | halved)[0], rtol=1e-5)


def test_t5_does_not_read_padding(run):
    model = T5Automap(**_T5).build()
    feeds = _t5_feeds()
    feeds["attention_mask"][:, 8:] = 0
    changed = feeds | {"input_ids": feeds["input_ids"].copy()}
    changed["input_ids"][:, 8:] = 1
    np.testing.assert_array_equal(run(model, feeds)[0], run(model, changed)[0])


def test_vgg_is_the_mean_of_weighted_cross_entropies():
    feeds = _vgg_feeds()
    content = ir.to_proto(Vgg19Training(**_VGG).build()).SerializeToString()
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])

    def loss(**changes):
        return session.run(None, feeds | changes)[0]

    usual = loss()
    assert 0.1 < usual < 20
    heavier = loss(class_weights=np.full(10, 3, dtype=np.float32))
    np.testing.assert_allclose(heavier, 3 * usual, rtol=1e-5)
    scaled = loss(loss_scale=np.array(4.0, dtype=np.float32))
    np.testing.assert_allclose(scaled, 2 * usual, rtol=1e-6)
    feeds["input"][:] = feeds["input"][0]
    feeds["loss_scale"] = np.array(1.0, dtype=np.float32)
    losses = [loss(labels=np.full(3, label, dtype=np.int64)) for label in range(10)]
    np.testing.assert_allclose(np.exp(-np.array(losses)).sum(), 1.0, rtol=1e-5)


def test_sizes_are_the_published_ones():
    assert parameter_count(T5Automap().build()) == pytest.approx(51e6, rel=0.005)
    assert parameter_count(T5ThreeBillion(shape_only=False).build()) == pytest.approx(2.85e9, 0.01)
    assert parameter_count(T5ElevenBillion(shape_only=False).build()) == pytest.approx(11.3e9, 0.01)
    of_vgg = parameter_count(Vgg19Training().build())
    assert of_vgg == parameter_count(Vgg19().build()) == 143_667_240


@pytest.mark.parametrize(
    "builder",
    [T5ThreeBillion(layers=2, decoder_layers=2), T5ElevenBillion(layers=2, decoder_layers=2)],
    ids=lambda b: b.name,
)
def test_the_large_ones_are_shapes_only_and_can_be_imported(builder):
    model, notes = import_model(builder.build(), builder.name)
    assert model.metadata_props[WEIGHTS_KEY] == SHAPE_ONLY
    assert notes == []
    assert all(
        value.shape is not None and value.shape.is_static()
        for node in model.graph
        for value in node.outputs
    )
    wi = next(v for n in model.graph for v in n.outputs if v.name and v.name.endswith("wi.weight"))
    assert wi.shape.numpy() == (1024, builder.intermediate)
