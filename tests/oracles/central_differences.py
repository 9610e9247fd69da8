"""Gradients of small graphs, measured element by element in double precision.

onnx's reference evaluator runs the forward pass; no rule and no emitter takes part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

STEP = 1e-6


class Erf(OpRun):
    """In double: the evaluator's own is rounded to float32."""

    def _run(self, x):
        import math

        return (np.vectorize(math.erf, otypes=["d"])(x),)


def in_double(text: str) -> str:
    """A model's text with `double` for `float`, in types of values."""
    return re.sub(r"\bfloat\b(?=\s*(\[|\w))", "double", text)


def random_feeds(text: str, seed: int = 0, low: float = -2.0, high: float = 2.0) -> dict[str, Any]:
    """Values for the inputs of floating point, in double, spread so that no two are equal."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for value in onnx.parser.parse_model(in_double(text)).graph.input:
        kind = value.type.tensor_type
        if kind.elem_type == onnx.TensorProto.DOUBLE:
            shape = [dim.dim_value for dim in kind.shape.dim]
            places = rng.permutation(int(np.prod(shape)))
            spread = (places + rng.uniform(0.2, 0.8, len(places))) / max(len(places), 1)
            feeds[value.name] = (low + (high - low) * spread).reshape(shape)
    return feeds


def measured_gradients(
    text: str, feeds: Mapping[str, Any], factors: Mapping[str, Any], sources: list[str]
) -> dict[str, Any]:
    """The gradient of `Σ factor · output` by each element of each source.

    Args:
        text: a model in ONNX's text form; its types of floating point are taken for double.
        feeds: all inputs, in double.
        factors: by output.
        sources: inputs that are changed.
    """
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(in_double(text)), new_ops=[Erf])

    def loss(values: Mapping[str, Any]) -> float:
        results = evaluator.run(None, dict(values))
        named = dict(zip(evaluator.output_names, results, strict=True))
        return float(sum((named[name] * factor).sum() for name, factor in factors.items()))

    found: dict[str, Any] = {}
    for name in sources:
        slopes = np.zeros(feeds[name].shape)
        for place in np.ndindex(*feeds[name].shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = np.array(feeds[name])
                moved[place] += sign * STEP
                ends.append(loss({**feeds, name: moved}))
            slopes[place] = (ends[0] - ends[1]) / (2.0 * STEP)
        found[name] = slopes
    return found


def outputs_of(text: str, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the reference evaluator computes in double."""
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(in_double(text)), new_ops=[Erf])
    return dict(zip(evaluator.output_names, evaluator.run(None, dict(feeds)), strict=True))


def onnxruntime_of(model: onnx.ModelProto) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Runs a model, as written, in onnxruntime without its optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def largest_error(computed: Any, measured: Any) -> float:
    """Largest distance of two arrays, over the largest of the measured numbers or 1."""
    size = max(float(np.abs(measured).max(initial=0.0)), 1.0)
    return float(np.abs(np.asarray(computed, np.float64) - measured).max(initial=0.0)) / size
