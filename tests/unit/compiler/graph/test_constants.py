"""What is constant and what must be placed."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.constants import (
    constant_values,
    constants_and_placeable,
    consumed_values,
    graphs_of,
    placeable_nodes,
)


def graph_of(text):
    return ir.from_onnx_text(text).graph


def test_constant_subgraph_is_not_placed():
    graph = graph_of("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2,4] x) => (float[2,4] y)
        <int64[2] shape = {2, 4}>
        {
            w = ConstantOfShape(shape)
            s = Sqrt(w)
            y = Add(x, s)
        }
    """)
    assert [n.op_type for n in placeable_nodes(graph)] == ["Add"]
    assert {v.name for v in constant_values(graph)} == {"shape", "w", "s"}
    assert constants_and_placeable(graph) == (constant_values(graph), placeable_nodes(graph))


def test_constant_graph_output_is_placed():
    graph = graph_of("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y, float[2] w)
        <int64[1] shape = {2}>
        {
            w = ConstantOfShape(shape)
            y = Relu(x)
        }
    """)
    assert [n.op_type for n in placeable_nodes(graph)] == ["ConstantOfShape", "Relu"]


def test_random_ops_and_unknown_domains_are_placed():
    graph = graph_of("""
        <ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
        g (float[2] x) => (float[2] y)
        <float[2] w = {1.0, 2.0}>
        {
            r = RandomNormal <shape = [2]> ()
            c = acme.Secret(w)
            a = Add(r, c)
            y = Add(x, a)
        }
    """)
    assert [n.op_type for n in placeable_nodes(graph)] == ["RandomNormal", "Secret", "Add", "Add"]


def test_captured_values_are_consumed():
    graph = graph_of("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, bool c) => (float[2] y)
        {
            a = Relu(x)
            y = If(c) <
                then_branch = t () => (float[2] p) { p = Neg(a) },
                else_branch = e () => (float[2] q) { q = Add(a, x) }
            >
        }
    """)
    branching = graph[-1]
    assert [v.name for v in consumed_values(branching)] == ["c", "a", "x"]


def test_nodes_that_make_nothing_anyone_could_read_are_not_placed():
    graph = graph_of("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y)
        {
            y = Relu(x)
        }
    """)
    graph.append(ir.Node("", "Neg", [graph.inputs[0]]))
    graph[-1].outputs[0].name = None
    assert [n.op_type for n in placeable_nodes(graph)] == ["Relu"]


def test_graphs_are_those_of_the_model_in_its_order():
    model = ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, bool c) => (float[2] y)
        {
            y = If(c) <
                then_branch = t () => (float[2] p) {
                    p = If(c) <
                        then_branch = tt () => (float[2] r) { r = Neg(x) },
                        else_branch = te () => (float[2] s) { s = Abs(x) }
                    >
                },
                else_branch = e () => (float[2] q) { q = Relu(x) }
            >
        }
    """)
    # As a clone of an op does, another one holds the same branches.
    branching = model.graph[0]
    model.graph.append(
        ir.Node("", "If", branching.inputs, list(branching.attributes.values()), name="clone")
    )
    assert graphs_of(model) == list(model.graphs())
    assert [graph.name for graph in graphs_of(model)] == ["g", "t", "tt", "te", "e"]
