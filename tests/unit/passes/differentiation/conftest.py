"""Small graphs in ONNX's text form, with gradients held against measured ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.generators.appended_gradients import append_gradients
from tests.oracles.central_differences import (
    Erf,
    in_double,
    largest_error,
    measured_gradients,
    onnxruntime_of,
    outputs_of,
    random_feeds,
)

HEADER = '<ir_version: 8, opset_import: ["" : {opset}]>'


def with_loss(proto: onnx.ModelProto, factors: Mapping[str, Any]) -> onnx.ModelProto:
    """Adds `Σ factor · output` as the only output, `loss`; nodes get names."""
    kind = proto.graph.output[0].type.tensor_type.elem_type
    for name, factor in factors.items():
        array = factor.astype(helper.tensor_dtype_to_np_dtype(kind))
        proto.graph.initializer.append(numpy_helper.from_array(array, f"{name}_factor"))
        proto.graph.node.append(helper.make_node("Mul", [name, f"{name}_factor"], [f"{name}_part"]))
        proto.graph.node.append(
            helper.make_node("ReduceSum", [f"{name}_part"], [f"{name}_sum"], keepdims=0)
        )
    proto.graph.node.append(helper.make_node("Sum", [f"{n}_sum" for n in factors], ["loss"]))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("loss", kind, []))
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def differentiated(proto: onnx.ModelProto, sources: list[str]) -> tuple[onnx.ModelProto, list[str]]:
    """The model with gradients of `loss` by sources, and those that have one."""
    model = ir.from_proto(proto)
    made = append_gradients(model, "loss", sources)
    return ir.to_proto(model), [s for s, v in zip(sources, made, strict=True) if v is not None]


@pytest.fixture
def check() -> Callable[..., None]:
    """Compares all gradients of a graph with measured ones.

    `check("(float[3] x) => (float[3] y) { y = Neg(x) }")`. Integers and booleans are given by name
    in `fixed`; floats are spread over `[low, high]` unless they are given. The graph with gradients
    runs in double in onnx's reference evaluator, and in float32 in onnxruntime.
    """

    def compare(
        text: str,
        *,
        opset: int = 18,
        low: float = -2.0,
        high: float = 2.0,
        sources: list[str] | None = None,
        close: float = 1e-3,
        **fixed: Any,
    ) -> None:
        text = HEADER.format(opset=opset) + "graph " + text
        given = {name: np.asarray(value) for name, value in fixed.items()}
        feeds = {**random_feeds(text, low=low, high=high), **given}
        sources = sources or [n for n, a in feeds.items() if a.dtype == np.float64]
        outputs = outputs_of(text, feeds)
        rng = np.random.default_rng(1)
        factors = {
            name: rng.normal(size=value.shape)
            for name, value in outputs.items()
            if value.dtype == np.float64
        }
        measured = measured_gradients(text, feeds, factors, sources)

        double, found = differentiated(
            with_loss(onnx.parser.parse_model(in_double(text)), factors), sources
        )
        evaluator = ReferenceEvaluator(double, new_ops=[Erf])
        exact = dict(zip(evaluator.output_names, evaluator.run(None, feeds), strict=True))
        single, _ = differentiated(with_loss(onnx.parser.parse_model(text), factors), sources)
        narrow = {n: a.astype("f") if a.dtype == np.float64 else a for n, a in feeds.items()}
        rounded = onnxruntime_of(single)(narrow)
        for name in sources:
            zeros = np.zeros(feeds[name].shape)
            computed = exact[f"grad/{name}"] if name in found else zeros
            assert np.shape(computed) == zeros.shape
            assert largest_error(computed, measured[name]) < 1e-6, name
            computed = rounded[f"grad/{name}"] if name in found else zeros
            assert largest_error(computed, measured[name]) < close, name

    return compare
