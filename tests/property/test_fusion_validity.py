"""On any graph, groups are disjoint and convex, and contracted they leave no cycle."""

from __future__ import annotations

import graphlib

import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.graph.constants import placeable_nodes
from mcm_passes.pipeline.preparing import plan_fusion

OPS = [
    *(("Add", 2), ("Mul", 2), ("Sub", 2), ("Div", 2), ("MatMul", 2), ("Where", 3), ("Pow", 2)),
    *(("Sigmoid", 1), ("Erf", 1), ("Tanh", 1), ("Softmax", 1), ("Sqrt", 1), ("Exp", 1)),
    *(("ReduceMean", 1), ("ReduceSum", 1), ("Reshape", 1), ("Conv", 1), ("Cast", 1)),
    *(("Transpose", 1), ("Reciprocal", 1), ("Relu", 1), ("Sin", 1)),
]


@st.composite
def graphs(draw: st.DrawFn) -> ir.Graph:
    """Graphs of up to 40 ops that mostly read what was made last."""

    def value(name: str) -> ir.Value:
        return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))

    inputs = [value("x0"), value("x1")]
    weight = value("w")
    weight.const_value = ir.tensor([2.0] * 4, name="w", dtype=ir.DataType.FLOAT)
    available = [weight, *inputs]
    nodes: list[ir.Node] = []
    for i in range(draw(st.integers(1, 40))):
        op, arity = draw(st.sampled_from(OPS))
        back = [draw(st.integers(1, min(len(available), 5))) for _ in range(arity)]
        anywhere = draw(st.booleans())
        operands = [
            available[draw(st.integers(0, len(available) - 1))] if anywhere else available[-b]
            for b in back
        ]
        node = ir.node(op, operands, outputs=[value(f"v{i}")], name=f"n{i}")
        nodes.append(node)
        available.append(node.outputs[0])
    made = [node.outputs[0] for node in nodes]
    extra = draw(st.lists(st.sampled_from(made), max_size=3, unique=True))
    outputs = [v for v in made if not v.uses() or v in extra]
    return ir.Graph(
        inputs, outputs, nodes=nodes, initializers=[weight], opset_imports={"": 17}, name="g"
    )


@settings(max_examples=80)
@given(graphs(), st.integers(2, 12))
def test_groups_are_disjoint_convex_and_acyclic(graph: ir.Graph, max_group: int) -> None:
    plan = plan_fusion(graph, max_group)
    members = [name for group in plan.groups for name in group.nodes]
    assert len(members) == len(set(members))
    order = {node.name: i for i, node in enumerate(graph)}
    placed = {node.name for node in placeable_nodes(graph)}
    assert set(members) <= placed
    assert len({group.name for group in plan.groups}) == len(plan.groups)
    for group in plan.groups:
        assert 2 <= len(group.nodes) <= max_group
        assert list(group.nodes) == sorted(group.nodes, key=order.__getitem__)
        assert group.name == group.nodes[-1]

    def unit(name: str) -> str:
        group = plan.group_of.get(name)
        return group.name if group is not None else name

    edges = [
        (value.producer().name, node.name)
        for node in graph
        for value in node.inputs
        if value is not None and value.producer() is not None
    ]
    contracted: dict[str, set[str]] = {name: set() for name in map(unit, order)}
    for source, reader in edges:
        if unit(source) != unit(reader):
            contracted[unit(reader)].add(unit(source))
    # An acyclic contraction also means that no path leaves a group and comes back.
    list(graphlib.TopologicalSorter(contracted).static_order())
    ends = [order[group.name] for group in plan.groups]
    assert ends == sorted(ends)


@settings(max_examples=100)
@given(graphs())
def test_the_plan_depends_on_the_graph_alone(graph: ir.Graph) -> None:
    before = [(n.name, n.op_type, [v.name for v in n.inputs]) for n in graph]
    assert plan_fusion(graph) == plan_fusion(graph)
    assert before == [(n.name, n.op_type, [v.name for v in n.inputs]) for n in graph]
