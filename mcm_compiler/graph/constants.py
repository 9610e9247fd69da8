"""Which parts of a graph are constant, and which must be placed on chips.

Weights come as initializers, as `Constant` nodes and as whole subgraphs that do not depend on
any input (`ConstantOfShape`, shape arithmetic). All of them are weights: they live where they
are used, and nothing of them is computed in order to place the rest.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import cast

import onnx_ir as ir

from mcm_compiler.graph.attribute_data import attribute_data

RANDOM_OPS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip
"""Ops of the default domain whose output differs from run to run."""

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


def is_deterministic(node: ir.Node) -> bool:
    """Whether `node`, its subgraphs included, gives the same output for the same input."""
    if node.domain in ("", "ai.onnx"):
        if node.op_type in RANDOM_OPS:
            return False
        if node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None:
            return False
    elif node.domain not in ("com.microsoft", "ai.onnx.ml"):
        return False
    # Most ops have no attributes, and this is asked many times for each. Here and below they are
    # read past the view, which is interpreted code.
    return not node.attributes.data or all(
        is_deterministic(inner) for graph in subgraphs(node) for inner in graph
    )


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """The graphs that `node` holds as attributes (bodies of `If`, `Loop`, `Scan`)."""
    found: list[ir.Graph] = []
    for attribute in node.attributes.data.values():
        kind = attribute.type
        if kind is _GRAPH and not attribute.is_ref():
            found.append(attribute.as_graph())
        elif kind is _GRAPHS and not attribute.is_ref():
            found += attribute.as_graphs()
    return found


def graphs_of(model: ir.Model) -> list[ir.Graph]:
    """The main graph and all within it, each once and before those that its ops hold.

    As `model.graphs()` gives them, which hands each op through several generators.
    """
    found: dict[ir.Graph, None] = {}
    _gather(model.graph, found)
    return list(found)


def _gather(graph: ir.Graph, found: dict[ir.Graph, None]) -> None:
    if graph in found:
        return
    found[graph] = None
    for node in graph:
        if node.attributes.data:
            for inner in subgraphs(node):
                _gather(inner, found)


def add_initializer(graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
    """A new constant of a graph, with the name of its tensor."""
    value = ir.val(tensor.name, const_value=tensor)
    graph.register_initializer(value)
    return value


def consumed_values(node: ir.Node) -> list[ir.Value]:
    """Distinct values that `node` reads, in order: its inputs, then what its subgraphs capture."""
    inputs = node.inputs
    bodies = subgraphs(node) if node.attributes.data else ()
    seen: dict[ir.Value | None, None] = dict.fromkeys(inputs)
    seen.pop(None, None)
    for graph in bodies:
        for value in _captured(graph):
            seen.setdefault(value)
    return cast("list[ir.Value]", list(seen))


def leaves(value: ir.Value, members: Container[ir.Node]) -> bool:
    """True for a value of `members` that other ops read, or that is a graph output."""
    return value.is_graph_output() or any(use.node not in members for use in value.uses())


def attribute_weights(node: ir.Node) -> list[ir.Value]:
    """Weights in the attributes of `node`: its data, and what its bodies store at any depth.

    Data are those of `attribute_data`; bodies store initializers and `Constant` outputs. They are
    no values of the graph that `node` is in, and the chip that runs it holds all of them, those of
    each branch of an `If`.
    """
    if not node.attributes.data:
        return []
    found: list[ir.Value] = [*attribute_data(node)]
    for graph in subgraphs(node):
        found += graph.initializers.data.values()
        for inner in graph:
            if inner.op_type == "Constant" and inner.domain in ("", "ai.onnx"):
                found += inner.outputs
            found += attribute_weights(inner)
    return found


def constant_values(graph: ir.Graph, without: Container[ir.Node] = ()) -> set[ir.Value]:
    """Values that do not depend on a graph input.

    An initializer that is also a graph input counts as constant: its default value is what the
    compiled model holds.

    Args:
        graph: in topological order.
        without: nodes whose outputs do not count as constant, whatever they read.
    """
    constants: set[ir.Value | None] = {None, *graph.initializers.data.values()}
    for node in graph:
        if _follows(node, constants) and node not in without:
            constants.update(node.outputs)
    return _given(constants)


def placeable_nodes(graph: ir.Graph) -> list[ir.Node]:
    """The ops that some chip must run, in graph order.

    A constant node is placed only if it makes a graph output, which some chip has to send.
    """
    return constants_and_placeable(graph)[1]


def constants_and_placeable(graph: ir.Graph) -> tuple[set[ir.Value], list[ir.Node]]:
    """What `constant_values` and `placeable_nodes` say of a graph, in one walk through it."""
    constants: set[ir.Value | None] = {None, *graph.initializers.data.values()}
    ends = set(graph.outputs)
    placeable: list[ir.Node] = []
    for node in graph:
        made = node.outputs
        if _follows(node, constants):
            constants.update(made)
            if not made or any(_exists(value) for value in made if value in ends):
                placeable.append(node)
        elif not made or made[0].name or any(map(_exists, made)):
            placeable.append(node)
    return _given(constants), placeable


def _follows(node: ir.Node, constants: set[ir.Value | None]) -> bool:
    """Whether the outputs of `node` are constant, where `constants` are, which hold None."""
    return (
        # Its own inputs first: they rule out almost every op, and cost least.
        constants.issuperset(node.inputs)
        and is_deterministic(node)
        and constants.issuperset(consumed_values(node))
    )


def _given(constants: set[ir.Value | None]) -> set[ir.Value]:
    constants.discard(None)
    return cast("set[ir.Value]", constants)


def _exists(output: ir.Value) -> bool:
    """Whether it is more than the place of an output that its op leaves out."""
    return bool(output.name or output.uses())


def _captured(graph: ir.Graph) -> Iterator[ir.Value]:
    inner: set[ir.Value] = {*graph.inputs, *graph.initializers.data.values()}
    for node in graph:
        inner.update(node.outputs)
    for node in graph:
        for value in consumed_values(node):
            if value not in inner:
                yield value
    for value in graph.outputs:
        if value not in inner:
            yield value
