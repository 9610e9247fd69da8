"""Small configurations of every zoo model, and the two runs that the tests compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mcm_compiler.zoo import ModelBuilder
from mcm_models.zoo.bert import Bert
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.inception_v3 import InceptionV3
from mcm_models.zoo.lstm_lm import LstmLm
from mcm_models.zoo.mobilenet_v2 import MobileNetV2
from mcm_models.zoo.nmt import Nmt
from mcm_models.zoo.resnet50 import ResNet50
from mcm_models.zoo.t5 import T5
from mcm_models.zoo.vgg19 import Vgg19

Feeds = dict[str, np.ndarray]
Run = Callable[[ir.Model, Feeds], list[np.ndarray]]

_BERT = {"layers": 2, "hidden": 32, "heads": 2, "intermediate": 64, "vocab": 50, "seq": 12}
_T5 = {"hidden": 32, "heads": 2, "head_width": 24, "intermediate": 64, "vocab": 50}

SMALL: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "resnet50": (ResNet50, {"image_size": 64, "classes": 10, "batch": 2}),
    "vgg19": (Vgg19, {"image_size": 32, "classes": 10}),
    "inception-v3": (InceptionV3, {"image_size": 75, "classes": 10}),
    "mobilenet-v2": (MobileNetV2, {"image_size": 64, "classes": 10}),
    "lstm-lm": (LstmLm, {"hidden": 24, "vocab": 50, "seq": 7, "batch": 2}),
    "nmt": (Nmt, {"layers": 3, "steps": 4, "hidden": 24, "vocab": 50, "batch": 2}),
    "bert": (Bert, _BERT | {"batch": 2}),
    "bert-computed": (Bert, _BERT | {"computed_shapes": True}),
    "t5": (T5, _T5 | {"layers": 2, "decoder_layers": 3, "seq": 40, "decoder_seq": 36}),
    "gpt2": (Gpt2, {"layers": 2, "hidden": 32, "heads": 2, "intermediate": 64, "seq": 36}),
}


@pytest.fixture(params=SMALL)
def make(request: pytest.FixtureRequest) -> Callable[..., ModelBuilder]:
    """Makes one of the small builders; keyword arguments change its options."""
    builder, options = SMALL[request.param]
    return lambda **changes: builder(**(options | changes))


@pytest.fixture
def run() -> Run:
    """Runs a model in onnxruntime, unoptimised, and returns its outputs."""

    def _run(model: ir.Model, feeds: Feeds) -> list[np.ndarray]:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        content = ir.to_proto(model).SerializeToString()
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    return _run


@pytest.fixture
def feeds() -> Callable[[ir.Model, int], Feeds]:
    """Random inputs for a model of fixed shapes, unpadded."""

    def _feeds(model: ir.Model, seed: int) -> Feeds:
        rng = np.random.default_rng(seed)
        made: Feeds = {}
        for value in model.graph.inputs:
            assert value.name is not None
            assert value.shape is not None
            extents = value.shape.numpy()
            if value.dtype == ir.DataType.FLOAT:
                made[value.name] = rng.standard_normal(extents, dtype=np.float32)
            elif "mask" in value.name:
                made[value.name] = np.ones(extents, dtype=np.int64)
            else:
                made[value.name] = rng.integers(2 if "type" in value.name else 50, size=extents)
        return made

    return _feeds
