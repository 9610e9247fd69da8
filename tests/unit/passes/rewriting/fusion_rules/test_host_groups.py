from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from mcm_passes.mapping.problem.contraction import contract
from mcm_passes.pipeline.preparing import plan_fusion
from mcm_passes.rewriting.fusion_rules.host_groups import host_groups


def grouped(graph: ir.Graph, *hosted: str, free: str = "Reshape") -> list[str]:
    """Groups as texts of the outputs of their ops."""
    groups = host_groups(
        graph,
        {node for node in graph if node.outputs[0].name in hosted},
        lambda node: node.op_type in free,
    )
    return [" ".join(node.outputs[0].name or "" for node in group) for group in groups]


def test_ops_that_follow_one_another_share_a_trip(make_model):
    graph = make_model(
        "g (float[4] x) => (float[4] y, float[4] c) {"
        " a = Relu(x) b = Erf(a) c = Exp(b) d = Neg(b) e = Abs(d) y = Erf(e) }"
    ).graph
    # Both c and e leave the group of b: it has two exits.
    assert grouped(graph, "b", "c", "d", "y") == ["b c d", "y"]


def test_no_group_across_an_op_of_the_chip(make_model):
    graph = make_model(
        "g (float[4] x) => (float[4] y) { a = Erf(x) b = Relu(a) y = Add(a, b) }"
    ).graph
    assert grouped(graph, "a", "y") == ["a", "y"]


def test_independent_ops_share_none(make_model):
    graph = make_model(
        "g (float[4] x) => (float[4] y) { a = Erf(x) b = Exp(x) y = Add(a, b) }"
    ).graph
    assert grouped(graph, "a", "b") == ["a", "b"]
    assert grouped(graph, "a", "b", "y") == ["a b y"]


def test_views_stay_between(make_model):
    graph = make_model(
        "g (float[4] x) => (float[4] y, float[2,2] z) <int64[2] s = {2, 2}, int64[1] t = {4}> {"
        " a = Erf(x) b = Reshape(a, s) c = Reshape(b, t) y = Exp(c)"
        " d = Exp(x) z = Reshape(d, s) }"
    ).graph
    assert grouped(graph, "a", "y", "d") == ["a b c y", "d"]
    # Read by an op of the chip as well, a view is the chip's.
    assert grouped(graph, "a", "d") == ["a", "d"]


@pytest.mark.parametrize("seed", range(25))
def test_groups_leave_every_graph_acyclic(seed: int):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 30)
    nodes = list(graph)
    hosted = {node for node in nodes if rng.random() < 0.4}
    groups = host_groups(graph, hosted, lambda node: False)
    assert {node for group in groups for node in group} == hosted
    assert sum(map(len, groups)) == len(hosted)
    # Raises MCM-P001 for a cycle, fused groups of chips among them.
    units = contract(nodes, plan_fusion(graph, hosted=groups))
    assert all(len({node in hosted for node in unit.nodes}) == 1 for unit in units)
    # Whatever may share a trip does: an edge inside the host is cut only where a chip is between.
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    for node in hosted:
        for maker in (value.producer() for value in node.inputs if value is not None):
            if maker in hosted and group_of[maker] != group_of[node]:
                assert any(
                    v.producer() not in hosted
                    for n in groups[group_of[node]]
                    for v in n.inputs
                    if v is not None and v.producer() is not None
                )


def random_graph(rng: np.random.Generator, size: int) -> ir.Graph:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
    values, nodes = [x], []
    for index in range(size):
        near = values[-6:]
        left, right = (near[int(rng.integers(len(near)))] for _ in range(2))
        binary = rng.random() < 0.5
        node = ir.Node(
            "", "Add" if binary else "Relu", [left, right] if binary else [left], name=f"n{index}"
        )
        node.outputs[0].name = f"v{index}"
        node.outputs[0].type, node.outputs[0].shape = x.type, ir.Shape([4])
        nodes.append(node)
        values.append(node.outputs[0])
    unread = [v for v in values[1:] if not v.uses()]
    return ir.Graph([x], unread, nodes=nodes, opset_imports={"": 20}, name="random")
