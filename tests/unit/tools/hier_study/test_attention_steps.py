"""Attention with a normalised score vector, against its equations."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from hier_study.training_models import NormalisedAttention

from mcm_models.graph_builder import GraphBuilder
from mcm_models.zoo.layers.recurrent_layers import TimeAxis


def test_computes_the_equations():
    batch, steps, hidden = 2, 3, 4
    graph = GraphBuilder("attention", opset=17, ir_version=8, seed=1, shape_only=False)
    memory = graph.input("memory", ir.DataType.FLOAT, [batch, steps, hidden])
    padding = graph.input("padding", ir.DataType.FLOAT, [batch, steps])
    query = graph.input("query", ir.DataType.FLOAT, [batch, hidden])
    attention = NormalisedAttention.over(
        graph.root.sub("a"), memory, hidden, TimeAxis.of(graph), padding=padding
    )
    graph.output(attention.context(0, query), "found", ir.DataType.FLOAT, [batch, hidden])
    model = graph.model()
    assert sum("step.0" in node.name for node in model.graph) == 17
    w = {name: v.const_value.numpy() for name, v in model.graph.initializers.items()}
    rng = np.random.default_rng(0)
    feeds = {
        "memory": rng.standard_normal((batch, steps, hidden), dtype=np.float32),
        "padding": np.array([[0, 0, 0], [0, 0, -1e9]], np.float32),
        "query": rng.standard_normal((batch, hidden), dtype=np.float32),
    }
    content = ir.to_proto(model).SerializeToString()
    (found,) = ort.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feeds)
    v = w["a.score.direction"]
    v = w["a.score.length"][0] * v / np.linalg.norm(v)
    for b, words in enumerate((3, 2)):
        seen = feeds["memory"][b, :words]
        compared = seen @ w["a.key.weight"] + feeds["query"][b] @ w["a.query.weight"]
        scores = np.exp(np.tanh(compared + w["a.score.bias"]) @ v)
        np.testing.assert_allclose(found[b], (scores / scores.sum()) @ seen, rtol=1e-4)
