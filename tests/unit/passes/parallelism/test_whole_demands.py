"""Weights that come before and behind ops, compared with where a NaN in one element shows."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mcm_passes.parallelism.division_bounds.whole_demands import WholeDemands

ROWS, WIDTH = 3, 4


def attention() -> onnx.ModelProto:
    """Products with one weight for queries, keys and values, as GPT-2 has them, and a layer."""
    rng = np.random.default_rng(0)
    shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 5), "down": (5, 2)}
    weights = [
        numpy_helper.from_array(rng.random(shape, np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "qkv"], ["a"], "fused"),
        node("Split", ["a"], ["q", "k", "v"], "split", axis=1, num_outputs=3),
        node("Gemm", ["q", "k"], ["s"], "scores", transB=1),
        node("Softmax", ["s"], ["p"], "softmax"),
        node("MatMul", ["p", "v"], ["m"], "mixture"),
        node("MatMul", ["m", "out"], ["o"], "project"),
        node("Add", ["o", "x"], ["r"], "residual"),
        node("MatMul", ["r", "up"], ["u"], "up"),
        node("MatMul", ["u", "down"], ["y"], "down"),
    ]
    sides = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [ROWS, cols])
        for name, cols in (("x", WIDTH), ("y", 2))
    ]
    graph = helper.make_graph(nodes, "attention", sides[:1], sides[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return onnx.shape_inference.infer_shapes(made)


Named = dict[str, set[str]]


@pytest.fixture(scope="module")
def demands() -> tuple[Named, Named]:
    found = WholeDemands(ir.from_proto(attention()))
    names = {bit: value.name or "" for value, bit in found.weights.items()}

    def named(facts: dict[ir.Node, int]) -> Named:
        return {
            node.name or "": {name for bit, name in names.items() if bits & bit}
            for node, bits in facts.items()
        }

    return named(found.before), named(found.after)


def test_one_element_of_a_weight_that_comes_before_shows_in_every_element(
    demands: tuple[Named, Named],
) -> None:
    model = attention()
    values = [name for node in model.graph.node for name in node.output]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in values[:-1])
    for at, weight in enumerate(model.graph.initializer):
        altered = onnx.ModelProto()
        altered.CopyFrom(model)
        numbers = numpy_helper.to_array(weight).copy()
        numbers[1, 1] = np.nan
        altered.graph.initializer[at].CopyFrom(numpy_helper.from_array(numbers, weight.name))
        feeds = {"x": np.ones((ROWS, WIDTH), np.float32)}
        names = [output.name for output in model.graph.output]
        found = dict(zip(names, ReferenceEvaluator(altered).run(None, feeds), strict=True))
        for node in model.graph.node:
            if weight.name in demands[0][node.name]:
                assert all(np.isnan(found[name]).all() for name in node.output), node.name


def test_products_come_before_and_behind_what_sums_over_them(demands: tuple[Named, Named]) -> None:
    before, after = demands
    assert before["down"] == {"out", "up"}
    assert before["up"] == {"out"}
    assert after["up"] == {"down"}
    assert after["project"] == {"up", "down"}
    assert after["fused"] == {"out", "up", "down"}
    assert after["down"] == set()
