"""The loss of unrolled steps is the weighted mean of cross-entropies, however it is cut."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mcm_models.graph_builder import GraphBuilder
from mcm_models.zoo.layers.recurrent_layers import SequenceLoss

STEPS, BATCH, HIDDEN, VOCAB = 5, 3, 4, 7


def _loss(chunk, states, labels, weights):
    graph = GraphBuilder("loss", opset=17, ir_version=8, seed=0, shape_only=False)
    steps = [graph.input(f"step{n}", ir.DataType.FLOAT, [BATCH, HIDDEN]) for n in range(STEPS)]
    wanted = graph.input("labels", ir.DataType.INT64, [BATCH, STEPS])
    counted = graph.input("weights", ir.DataType.FLOAT, [BATCH, STEPS])
    loss = SequenceLoss.with_weights(graph.root.sub("projection"), HIDDEN, VOCAB, chunk)
    graph.output(loss.mean(steps, wanted, counted), "loss", ir.DataType.FLOAT, [])
    model = graph.model()
    content = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    feeds = {f"step{n}": states[n] for n in range(STEPS)}
    (found,) = session.run(None, feeds | {"labels": labels, "weights": weights})
    values = model.graph.initializers
    return found, *(values[f"projection.{name}"].const_value.numpy() for name in ("weight", "bias"))


@pytest.mark.parametrize("chunk", [1, 2, 5, 9])
def test_is_the_weighted_mean(chunk):
    rng = np.random.default_rng(chunk)
    states = rng.standard_normal((STEPS, BATCH, HIDDEN), dtype=np.float32)
    labels = rng.integers(VOCAB, size=(BATCH, STEPS))
    weights = rng.random((BATCH, STEPS), dtype=np.float32)
    weights[0, 2:] = 0
    found, weight, bias = _loss(chunk, states, labels, weights)
    total = 0.0
    for step in range(STEPS):
        for sentence in range(BATCH):
            logits = states[step, sentence].astype(np.float64) @ weight + bias
            chance = np.exp(logits[labels[sentence, step]]) / np.exp(logits).sum()
            total -= weights[sentence, step] * np.log(chance)
    np.testing.assert_allclose(found, total / weights.sum(), rtol=1e-5)
    assert found.shape == ()
