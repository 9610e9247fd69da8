"""Published sizes of the full models, counted without making a single weight."""

from __future__ import annotations

import tracemalloc

import onnx_ir as ir
import pytest

from mcm_models.zoo.bert import BertBase, BertLarge, BertTiny
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.image_networks import InceptionV3, MobileNetV2, ResNet50, Vgg19
from mcm_models.zoo.lstm_language_models import LstmLm
from mcm_models.zoo.t5 import T5, T5Small
from tests.generators.parameter_count import parameter_count


def _statistics(model: ir.Model) -> int:
    """Running means and variances, which papers do not count as parameters."""
    return sum(
        value.const_value.size
        for name, value in model.graph.initializers.items()
        if name.endswith(("running_mean", "running_var"))
    )


@pytest.mark.parametrize(
    ("builder", "parameters"),
    [
        # torchvision's and transformers' own counts
        (ResNet50(), 25_557_032),
        (Vgg19(), 143_667_240),
        (InceptionV3(), 23_834_568),
        (MobileNetV2(), 3_504_872),
        (BertTiny(), 4_385_920),
        (BertBase(), 109_482_240),
        (BertLarge(), 335_141_888),
        (Gpt2(), 124_439_808),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_parameter_count_is_the_published_one(builder, parameters):
    model = builder.build()
    assert parameter_count(model) - _statistics(model) == parameters


def test_t5_small_has_its_parameters_and_a_causal_mask():
    causal_mask = 128 * 128
    model = T5Small().build()
    assert parameter_count(model) - causal_mask == 60_506_624
    assert model.graph.initializers["shared.weight"].shape.numpy() == (32_128, 512)


def test_lstm_lm_has_the_gates_of_the_medium_model():
    embedding, projection = 650 * 10_000, 650 * 10_000 + 10_000
    lstm = 4 * 650 * (650 + 650) + 2 * 4 * 650
    assert parameter_count(LstmLm().build()) == embedding + 2 * lstm + projection


def test_bert_large_has_about_the_nodes_of_the_export():
    nodes = list(BertLarge().build().graph)
    constants = sum(node.op_type == "Constant" for node in nodes)
    assert len(nodes) == pytest.approx(2083, rel=0.05)
    assert len(nodes) - constants == pytest.approx(1651, rel=0.05)


@pytest.mark.parametrize("shape_only", [False, True])
def test_t5_11b_needs_no_memory(shape_only):
    tracemalloc.start()
    model = T5(
        layers=24,
        decoder_layers=24,
        hidden=1024,
        heads=128,
        head_width=128,
        intermediate=65_536,
        seq=512,
        shape_only=shape_only,
    ).build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20
    if shape_only:
        assert len(ir.to_proto(model).SerializeToString()) < 2 << 20
    else:
        assert parameter_count(model) == pytest.approx(11.3e9, rel=0.01)
