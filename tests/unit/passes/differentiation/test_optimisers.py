import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_passes.differentiation.differentiate import TrainingStepOptions, training_step
from tests.oracles.central_differences import onnxruntime_of

TEXT = """<ir_version: 8, opset_import: ["" : 18]> graph (float[2] t) => (float loss)
<float[2] a = {1.0, -2.0}, float[2] b = {0.5, 0.25}> {
    p = Mul(a, b)
    d = Sub(p, t)
    s = Mul(d, d)
    loss = ReduceSum<keepdims=0>(s)
}"""
TARGET = np.array([3.0, 1.0])
START = {"a": np.array([1.0, -2.0]), "b": np.array([0.5, 0.25])}


def model():
    found = ir.from_onnx_text(TEXT)
    for index, node in enumerate(found.graph):
        node.name = f"n{index}"
    return found


def trained(steps, **options):
    """Weights after some steps in onnxruntime, and the losses on the way."""
    step = training_step(model(), TrainingStepOptions(**options))
    proto = ir.to_proto(step.model)
    onnx.checker.check_model(proto, full_check=True)
    run = onnxruntime_of(proto)
    feeds = {name: value.numpy() for name, value in step.initial_values.items()}
    losses = []
    for _ in range(steps):
        found = run({**feeds, "t": TARGET.astype("f")})
        losses.append(float(found["loss"]))
        feeds = {pair.past: found[pair.present] for pair in step.states}
    return feeds, losses


def own_gradients(weights):
    distance = weights["a"] * weights["b"] - TARGET
    return {"a": 2 * distance * weights["b"], "b": 2 * distance * weights["a"]}


def own_clipped(gradients, limit):
    norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    return {k: g * min(1.0, limit / norm) for k, g in gradients.items()}


@pytest.mark.parametrize("clip", [0.0, 2.0, 1e6])
def test_steps_of_sgd(clip):
    weights = dict(START)
    for _ in range(4):
        gradients = own_gradients(weights)
        if clip:
            gradients = own_clipped(gradients, clip)
        weights = {k: weights[k] - 0.05 * gradients[k] for k in weights}
    found, losses = trained(4, optimizer="sgd", learning_rate=0.05, clip=clip)
    assert sorted(found) == ["a", "b"]
    for name, expected in weights.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)
    assert losses == sorted(losses, reverse=True)


def test_steps_of_adam():
    weights = dict(START)
    mean = {k: np.zeros(2) for k in weights}
    square = {k: np.zeros(2) for k in weights}
    for count in range(1, 6):
        gradients = own_clipped(own_gradients(weights), 1.5)
        for name, gradient in gradients.items():
            mean[name] = 0.9 * mean[name] + 0.1 * gradient
            square[name] = 0.999 * square[name] + 0.001 * gradient**2
            unbiased = mean[name] / (1 - 0.9**count)
            spread = np.sqrt(square[name] / (1 - 0.999**count))
            weights[name] = weights[name] - 0.02 * unbiased / (spread + 1e-8)
    found, _ = trained(5, optimizer="adam", learning_rate=0.02, clip=1.5)
    assert found["adam.step"] == 5.0
    for name, expected in weights.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4)
        np.testing.assert_allclose(found[f"{name}.m"], mean[name], rtol=1e-4)
        np.testing.assert_allclose(found[f"{name}.v"], square[name], rtol=1e-4)


def test_half_precision_is_updated_in_float32():
    found = model()
    for value in (*found.graph.initializers.values(), *found.graph.inputs, *found.graph.outputs):
        value.dtype = ir.DataType.FLOAT16
        if value.const_value is not None:
            half = value.const_value.numpy().astype(np.float16)
            value.const_value = ir.tensor(half, name=value.name)
    step = training_step(found, TrainingStepOptions(optimizer="adam", learning_rate=0.02))
    feeds = {name: value.numpy() for name, value in step.initial_values.items()}
    assert {name: str(a.dtype) for name, a in feeds.items() if "a" in name.split(".")} == {
        "a": "float16", "a.m": "float32", "a.v": "float32"
    }  # fmt: skip
    made = onnxruntime_of(ir.to_proto(step.model))({**feeds, "t": TARGET.astype("e")})
    np.testing.assert_allclose(made["a.next"], START["a"] + 0.02, rtol=1e-2)
