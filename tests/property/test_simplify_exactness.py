"""On any graph, `simplify` keeps names and bits of outputs, and a second run finds nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.pipeline.passes import PassContext
from mcm_passes.pipeline.preparing import Simplify

OPS = [("Identity", 1), ("Sin", 1), ("Add", 2), ("Mul", 2), ("Sub", 2), ("Dropout", 1), ("Tanh", 1)]
SHAPE = (3,)


@st.composite
def models(draw: st.DrawFn) -> ir.Model:
    """Small graphs with many constants, repetitions and identities."""

    def value(name: str) -> ir.Value:
        return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(SHAPE))

    weights = [value(f"w{i}") for i in range(3)]
    for weight, fill in zip(weights, (0.3, 0.3, -1.7), strict=True):
        weight.const_value = ir.Tensor(np.full(SHAPE, fill, np.float32), name=weight.name)
    inputs = [value("x0"), value("x1")]
    available = [*weights, *inputs]
    nodes: list[ir.Node] = []
    for i in range(draw(st.integers(1, 20))):
        op, arity = draw(st.sampled_from(OPS))
        operands = [draw(st.sampled_from(available)) for _ in range(arity)]
        nodes.append(ir.node(op, operands, outputs=[value(f"v{i}")], name=f"n{i}"))
        available.append(nodes[-1].outputs[0])
    made = [node.outputs[0] for node in nodes]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
    graph = ir.Graph(
        inputs, outputs, nodes=nodes, initializers=weights, opset_imports={"": 17}, name="g"
    )
    return ir.Model(graph, ir_version=8)


@settings(max_examples=60)
@given(models(), st.integers(0, 2**32 - 1))
def test_outputs_keep_their_bits(model: ir.Model, seed: int) -> None:
    rng = np.random.default_rng(seed)
    feeds = {f"x{i}": rng.standard_normal(SHAPE).astype(np.float32) for i in range(2)}
    expected = run_model(ir.to_proto(model), feeds)
    size = len(model.graph)
    context = PassContext(None, None, None, report=lambda _: None)  # pyright: ignore
    Simplify().run(model, context)
    assert check_invariants(model) == []
    assert len(model.graph) <= size
    actual = run_model(ir.to_proto(model), feeds)
    assert list(actual) == list(expected)
    assert all(same_bits(expected[name], actual[name]) for name in expected)
    once = [(n.name, [v.name for v in n.inputs]) for n in model.graph]
    Simplify().run(model, context)
    assert [(n.name, [v.name for v in n.inputs]) for n in model.graph] == once
