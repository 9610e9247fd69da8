"""Blocks compute what their names say: onnxruntime agrees with NumPy."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from mcm_models.blocks.random_blocks import ffn_block, gemm_block, mha_block, mlp_block


def _run(model: ir.Model, seed: int = 0) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    proto = ir.serde.serialize_model(model)
    onnx.checker.check_model(proto, full_check=True)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    feeds = {i.name: rng.normal(size=i.shape).astype(np.float32) for i in session.get_inputs()}
    return feeds, [np.asarray(value) for value in session.run(None, feeds)]


def _weights(model: ir.Model, scope: str) -> list[np.ndarray]:
    values = model.graph.initializers
    return [values[f"{scope}.{name}"].const_value.numpy() for name in ("weight", "bias")]  # pyright: ignore[reportOptionalMemberAccess]


def _linear(model: ir.Model, scope: str, value: np.ndarray) -> np.ndarray:
    weight, bias = _weights(model, scope)
    return value @ weight + bias


def test_gemm() -> None:
    model = gemm_block("g", 5, 8, [16, 24], seed=3)
    feeds, made = _run(model)
    for index, value in enumerate(made):
        np.testing.assert_allclose(
            value, _linear(model, f"gemm.{index}", feeds["x"]), rtol=1e-4, atol=1e-5
        )


def test_mlp() -> None:
    model = mlp_block("m", 5, [8, 16, 24, 8])
    feeds, (made,) = _run(model)
    value = feeds["x"]
    for index in range(3):
        value = _linear(model, f"layer.{index}", np.maximum(value, 0) if index else value)
    np.testing.assert_allclose(made, value, rtol=1e-4, atol=1e-5)


def test_ffn() -> None:
    model = ffn_block("f", 6, 8, 16)
    feeds, (made,) = _run(model)
    up = _linear(model, "up", feeds["x"])
    gelu = up * 0.5 * (1 + np.vectorize(math.erf)(up / math.sqrt(2)))
    total = _linear(model, "down", gelu) + feeds["x"]
    scale, shift = _weights(model, "norm")
    centered = total - total.mean(-1, keepdims=True)
    wanted = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale + shift
    np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=1e-4)


def test_mha() -> None:
    heads, width = 2, 8
    model = mha_block("a", 6, heads, width)
    feeds, (made,) = _run(model)
    value = feeds["x"]
    query, key, parts = (
        _linear(model, scope, value).reshape(6, heads, width).transpose(1, 0, 2)
        for scope in ("query", "key", "value")
    )
    scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(width))
    scores /= scores.sum(-1, keepdims=True)
    context = (scores @ parts).transpose(1, 0, 2).reshape(6, heads * width)
    np.testing.assert_allclose(
        made, _linear(model, "output", context) + value, rtol=1e-3, atol=1e-4
    )


def test_every_shape_is_right() -> None:
    for model in (
        gemm_block("g", 4, 8, [8]),
        mlp_block("m", 4, [8, 8, 16]),
        ffn_block("f", 4, 8, 16),
        mha_block("a", 4, 2, 8),
    ):
        stated = {
            value.name: value.shape.numpy()
            for node in model.graph
            for value in node.outputs
            if value.shape is not None
        }
        proto = ir.serde.serialize_model(model)
        del proto.graph.value_info[:]
        inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        for info in inferred.graph.value_info:
            dims = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
            assert stated.get(info.name, dims) == dims, info.name
        assert len(stated) > 1
