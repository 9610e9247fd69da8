"""Gradients of the zoo's models by all their weights, held against central differences."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from gradient_checks.differences import TOLERANCE, differences
from gradient_checks.double_models import array_in_double, in_double, with_loss
from gradient_checks.engines import engine

from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.graph.map_types import model_to_proto
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_passes.differentiation.variables import chosen_variables, make_inputs
from tests.generators.appended_gradients import append_gradients

Array = np.ndarray[Any, Any]

MODELS = (
    "bert-tiny{hidden=32,intermediate=64,vocab=100,positions=16,seq=8}",
    "bidirectional-rnn{hidden=8}",
    "branched-cnn{image_size=16,width=8,classes=10}",
    "conv-rnn{width=8,height=16,classes=8,hidden=8}",
    "dense-cnn{image_size=16,growth=8,classes=10}",
    "encoder-decoder-rnn{hidden=8,vocab=50}",
    "ensemble-cnn{image_size=16,width=8,classes=10}",
    "gpt2-tiny",
    "inception-v3{image_size=80,classes=10}",
    "lstm-lm{hidden=16,vocab=50,seq=6}",
    "mobilenet-v2{image_size=32,classes=10}",
    "plain-cnn{image_size=16,width=8,classes=10}",
    "residual-cnn{image_size=16,width=8,classes=10}",
    "resnet50{image_size=32,classes=10}",
    "separable-cnn{image_size=16,width=8,classes=10}",
    "stacked-rnn{hidden=8}",
    "unet-cnn{image_size=16,width=4}",
    "vgg19{image_size=32,classes=10}",
)
"""Every model of the zoo with up to 500 ops, with all its ops but smaller tensors."""

LOSS = "mcm.loss"
STEP, FINE_STEP = 1e-6, 1e-7
ALONE, FEW = 12, 3
"""Weights, drawn at random, that move alone; after them all move together."""
LARGE = 10_000_000
"""Elements from which on `FEW` move alone."""


@dataclass(frozen=True)
class ZooVerdict:
    """What became of one model.

    Attributes:
        model: as the zoo builds it.
        ops: before.
        gradient_ops: behind them.
        variables: weights with a gradient.
        error: largest relative error over these directions.
        passed: whether it is within the tolerance.
        engine: what ran the model with its gradients.
        seconds: of the processor, for all of it.
    """

    model: str
    ops: int
    gradient_ops: int
    variables: int
    error: float
    passed: bool
    engine: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without the time, which differs from run to run."""
        return {k: v for k, v in asdict(self).items() if k not in ("model", "seconds")}


def judge_model(spec: str) -> ZooVerdict:
    """Differentiates one model by all its weights at once.

    The loss is a random linear form of all outputs; labels, tokens and images are random.
    """
    start = time.process_time()
    model = build_zoo_model(spec)
    infer_shapes(model)
    data = random_inputs(model, 0)
    variables = chosen_variables(model, "*")
    weights = {v.name or "": t.numpy() for v, t in make_inputs(model.graph, variables).items()}
    proto = in_double(model_to_proto(model))
    feeds = {name: array_in_double(np.asarray(a)) for name, a in (data | weights).items()}
    rng = np.random.default_rng(5)
    factors = {
        value.name or "": rng.normal(size=[int(dim) for dim in value.shape.numpy()])
        for value in model.graph.outputs
        if value.shape is not None
    }
    lossy = onnx.shape_inference.infer_shapes(with_loss(proto, factors, LOSS), data_prop=True)
    differentiated = ir.from_proto(lossy)
    before = len(differentiated.graph)
    made = append_gradients(differentiated, LOSS, list(weights))
    gradients = {
        name: value.name or ""
        for name, value in zip(weights, made, strict=True)
        if value is not None
    }
    after = len(differentiated.graph) - len(gradients)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        used, run = engine(model_to_proto(differentiated), feeds)
        rng = np.random.default_rng(9)
        large = sum(array.size for array in weights.values()) > LARGE
        some = sorted(rng.permutation(sorted(gradients))[: FEW if large else ALONE])
        groups = [*([name] for name in some), list(gradients)]
        found = differences(run, LOSS, gradients, feeds, groups, seed=3, step=STEP)
        error = max(one.error for one in found)
        if error > TOLERANCE:
            # A larger step goes over the edges of more rectifiers.
            found = differences(run, LOSS, gradients, feeds, groups, seed=3, step=FINE_STEP)
            error = max(one.error for one in found)
    return ZooVerdict(
        spec,
        before,
        after - before,
        len(gradients),
        error,
        bool(error <= TOLERANCE),
        used,
        time.process_time() - start,
    )
