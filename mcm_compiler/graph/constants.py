"""Which parts of a graph are constant, and which must be placed on chips.

Weights come as initializers, as `Constant` nodes and as whole subgraphs that do not depend on
any input (`ConstantOfShape`, shape arithmetic). All of them are weights: they live where they
are used, and nothing of them is computed in order to place the rest.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import onnx_ir as ir

RANDOM_OPS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip
"""Ops of the default domain whose output differs from run to run."""


def is_deterministic(node: ir.Node) -> bool:
    """Whether `node`, its subgraphs included, gives the same output for the same input."""
    if node.domain in ("", "ai.onnx"):
        if node.op_type in RANDOM_OPS:
            return False
        if node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None:
            return False
    elif node.domain not in ("com.microsoft", "ai.onnx.ml"):
        return False
    # Most ops have no attributes, and this is asked many times for each.
    return not node.attributes or all(
        is_deterministic(inner) for graph in subgraphs(node) for inner in graph
    )


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that `node` holds as attributes (bodies of `If`, `Loop`, `Scan`)."""
    # Read past the view, which is interpreted code; this is asked many times for each op.
    for attribute in node.attributes.data.values():
        kind = attribute.type
        if kind is ir.AttributeType.GRAPH:
            if not attribute.is_ref():
                yield attribute.as_graph()
        elif kind is ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def consumed_values(node: ir.Node) -> list[ir.Value]:
    """Distinct values that `node` reads, in order: its inputs, then what its subgraphs capture."""
    seen: dict[ir.Value, None] = {v: None for v in node.inputs if v is not None}
    if node.attributes:
        for graph in subgraphs(node):
            for value in _captured(graph):
                seen.setdefault(value)
    return list(seen)


def body_weights(node: ir.Node) -> list[ir.Value]:
    """Weights that lie in the bodies of `node`, at any depth: initializers and `Constant` outputs.

    They are no values of the graph that `node` is in, and whoever runs it holds all of them, those
    of each branch of an `If`.
    """
    found: list[ir.Value] = []
    for graph in subgraphs(node) if node.attributes else ():
        found += graph.initializers.values()
        for inner in graph:
            if inner.op_type == "Constant" and inner.domain in ("", "ai.onnx"):
                found += inner.outputs
            found += body_weights(inner)
    return found


def constant_values(graph: ir.Graph, without: Container[ir.Node] = ()) -> set[ir.Value]:
    """Values that do not depend on a graph input.

    An initializer that is also a graph input counts as constant: its default value is what the
    compiled model holds.

    Args:
        graph: in topological order.
        without: nodes whose outputs do not count as constant, whatever they read.
    """
    constants: set[ir.Value | None] = {None, *graph.initializers.values()}
    for node in graph:
        # Its own inputs first: they rule out almost every op, and cost least.
        if not constants.issuperset(node.inputs) or node in without:
            continue
        if is_deterministic(node) and constants.issuperset(consumed_values(node)):
            constants.update(node.outputs)
    return {value for value in constants if value is not None}


def placeable_nodes(graph: ir.Graph) -> list[ir.Node]:
    """The ops that some chip must run, in graph order.

    A constant node is placed only if it makes a graph output, which some chip has to send.
    """
    constants = constant_values(graph)
    outputs = set(graph.outputs)
    return [
        node
        for node in graph
        if not node.outputs
        or any(v not in constants or v in outputs for v in node.outputs if v.name or v.uses())
    ]


def _captured(graph: ir.Graph) -> Iterator[ir.Value]:
    inner: set[ir.Value] = {*graph.inputs, *graph.initializers.values()}
    for node in graph:
        inner.update(node.outputs)
    for node in graph:
        for value in consumed_values(node):
            if value not in inner:
                yield value
    for value in graph.outputs:
        if value not in inner:
            yield value
