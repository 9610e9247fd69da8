"""What runs a model in double: onnxruntime, or onnx's reference where it has no kernel."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import onnx

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], dict[str, Any]]


FAR = 0.05
"""A result is another one, not a rounded one, from this share of the largest element on."""


class NotRunError(Exception):
    """Neither of the two runs a model."""


def engine(
    model: onnx.ModelProto,
    feeds: Mapping[str, Array],
    expected: Mapping[str, Array] | None = None,
    names: Collection[str] = ("onnxruntime", "onnx.reference"),
) -> tuple[str, Run]:
    """The name of the first engine that runs a model on `feeds`, and a function that does.

    Args:
        model: what to run.
        feeds: by input.
        expected: outputs that an engine has to come near, where it is known what they are.
        names: engines to try.

    Raises:
        NotRunError: if neither does.
    """
    problems: list[str] = []
    for name, make in (("onnxruntime", _onnxruntime), ("onnx.reference", _reference)):
        if name not in names:
            continue
        try:
            run = make(model)
            _check_near(run(feeds), expected or {})
        except Exception as error:  # each kernel fails in its own way
            problems.append(f"{name}: {' '.join(str(error).split())[:160]}")
        else:
            return name, run
    raise NotRunError("; ".join(problems))


def _check_near(made: Mapping[str, Any], expected: Mapping[str, Array]) -> None:
    for name, array in expected.items():
        size = max(1.0, float(np.abs(array[np.isfinite(array)]).max(initial=0.0)))
        if not np.allclose(made[name], array, atol=FAR * size, equal_nan=True):
            raise ValueError(f"{name} is far from what the case expects")


def _onnxruntime(model: onnx.ModelProto) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    read = {value.name for value in session.get_inputs()}

    def run(feeds: Mapping[str, Array]) -> dict[str, Any]:
        # Copies, since BatchNormalization writes running statistics over those it was given.
        given = {name: np.array(array) for name, array in feeds.items() if name in read}
        return dict(zip(names, session.run(names, given), strict=True))

    return run


def _reference(model: onnx.ModelProto) -> Run:
    from gradient_checks.fast_convolutions import Conv, ConvTranspose
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):
        """In double; the reference's own is rounded to float32."""

        def _run(self, x: Array) -> tuple[Array, ...]:
            return (np.vectorize(math.erf, otypes=["d"])(x).astype(x.dtype),)

    class MaxPool(OpRun):
        """By onnxruntime; the reference's own tells false indices where there is padding."""

        def _run(self, x: Array, **_attributes: Any) -> tuple[Array, ...]:
            node, key = self.onnx_node, (self.onnx_node.name, x.shape)
            if key not in pools:
                pools[key] = _onnxruntime(_alone(node, x, model))
            return tuple(pools[key]({node.input[0]: x}).values())

    pools: dict[tuple[str, tuple[int, ...]], Run] = {}
    evaluator = ReferenceEvaluator(model, new_ops=[Erf, MaxPool, Conv, ConvTranspose])
    names = [str(name) for name in evaluator.output_names]

    def run(feeds: Mapping[str, Array]) -> dict[str, Any]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return dict(zip(names, evaluator.run(None, dict(feeds)), strict=True))

    return run


def _alone(node: onnx.NodeProto, x: Array, model: onnx.ModelProto) -> onnx.ModelProto:
    """A pooling of doubles as a model of its own."""
    value = onnx.helper.make_tensor_value_info
    kinds = (onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64)
    outputs = [value(n, k, None) for n, k in zip(node.output, kinds, strict=False) if n]
    inputs = [value(node.input[0], kinds[0], x.shape)]
    graph = onnx.helper.make_graph([node], "alone", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
