"""Which parts of a graph are constant, and which must be placed on chips.

Weights come as initializers, as `Constant` nodes and as whole subgraphs that do not depend on
any input (`ConstantOfShape`, shape arithmetic). All of them are weights: they live where they
are used, and nothing of them is computed in order to place the rest.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Set
from typing import cast

import onnx_ir as ir

from mcm_compiler.graph.annotations import facts_of

RANDOM_OPS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip
"""Ops of the default domain whose output differs from run to run."""

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


def is_deterministic(node: ir.Node) -> bool:
    """Return whether `node`, its subgraphs included, gives the same output for the same input."""
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


def values_of(model: ir.Model) -> Iterator[ir.Value]:
    """The inputs of all graphs of a model, and the outputs of their ops."""
    for graph in graphs_of(model):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


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


_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def memory_of(constant: ir.Value) -> ir.Value:
    """The constant whose memory holds another: a view of it, or a packed one in another order.

    A weight that is read both in its own shape and in another is stored once, and so is one that
    is read packed both as it is and transposed.
    """
    behind, value, views_only = constant, constant, True
    while (node := value.producer()) is not None and node.domain in ("", "ai.onnx"):
        if node.op_type == "DequantizeLinear":
            return value
        views_only = views_only and node.op_type in _VIEWS
        if not (views_only or node.op_type in _VIEWS or node.op_type == "Transpose"):
            break
        if not node.inputs or (source := node.inputs[0]) is None:
            break
        value = source
        behind = value if views_only else behind
    return behind


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


def chain_nodes(model: ir.Model, constant: Set[ir.Value] | None = None) -> list[ir.Node]:
    """All ops in graph order, but for those that compute from weights alone.

    Such ops run once, before any micro-batch.
    """
    known = constant_values(model.graph) if constant is None else constant
    return [node for node in model.graph if not all(v in known for v in node.outputs)]


def placeable_nodes(graph: ir.Graph) -> list[ir.Node]:
    """The ops that some chip must run, in graph order.

    A constant node is placed only if it makes a graph output, which some chip has to send.
    """
    return constants_and_placeable(graph)[1]


def constants_and_placeable(graph: ir.Graph) -> tuple[set[ir.Value], list[ir.Node]]:
    """Results of `constant_values` and `placeable_nodes` for a graph, in one walk through it."""
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
    """Return whether the outputs of `node` are constant, where `constants` are, which hold None."""
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
    """Return whether it is more than the place of an output that its op leaves out."""
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


_DATA_KEY = "mcm.attribute_data"

_STANDARD_WITH_DATA = frozenset({"StringNormalizer", "TfIdfVectorizer"})
"""Ops of the default domain with data in attributes; other lists there are about axes."""

_LONGEST_CONFIGURATION = 16
"""Longest list of a custom op that is about axes (pads of 8 axes) and no data."""


def attribute_data(node: ir.Node) -> tuple[ir.Value, ...]:
    """Stand-ins for the data in the attributes of `node`, by attribute; the same at every call.

    Lists and tensors of `ai.onnx.ml` ops and of vocabularies count in full; of other domains
    tensors, and lists longer than any that describes axes. Numbers have their ONNX types, texts
    count as bytes. A stand-in has no data: `ir.Value.const_value` is None.
    """
    if node.domain in ("", "ai.onnx") and node.op_type not in _STANDARD_WITH_DATA:
        return ()
    known = facts_of(node).get(_DATA_KEY)
    # A copy of an op takes over what its original has in `meta`; its data are its own.
    if known is None or known[:2] != (node, node.name):
        shortest = 1 if node.domain in ("", "ai.onnx", "ai.onnx.ml") else _LONGEST_CONFIGURATION + 1
        known = node.meta[_DATA_KEY] = (node, node.name, tuple(_stand_ins(node, shortest)))
    return known[2]


def _stand_ins(node: ir.Node, shortest: int) -> list[ir.Value]:
    found: list[ir.Value] = []
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        dtype, size = _content(attribute, shortest)
        if size:
            found.append(ir.val(f"{node.name}/{attribute.name}", dtype, [size]))
    return found


def _content(attribute: ir.Attr, shortest: int) -> tuple[ir.DataType, int]:
    """Element type and elements of what an attribute holds; 0 elements where that is no data."""
    kind = attribute.type
    if kind is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        if tensor.dtype is ir.DataType.STRING:
            return ir.DataType.UINT8, tensor.nbytes
        return tensor.dtype, tensor.size
    values = attribute.value if kind in _LISTS else ()
    if len(values) < shortest:
        return ir.DataType.UINT8, 0
    if kind is ir.AttributeType.STRINGS:
        return ir.DataType.UINT8, sum(len(text.encode()) for text in attribute.as_strings())
    return _LISTS[kind], len(values)


_LISTS = {
    ir.AttributeType.FLOATS: ir.DataType.FLOAT,
    ir.AttributeType.INTS: ir.DataType.INT64,
    ir.AttributeType.STRINGS: ir.DataType.UINT8,
}


def draws_random(node: ir.Node, model: ir.Model) -> bool:
    """Return whether `node`, with its subgraphs and the function it calls, differs from run to run.

    With a `seed` onnxruntime draws the same numbers in each session, in the order of its runs.

    Args:
        node: the node.
        model: holds the functions; they don't call each other in a circle.
    """
    if node.domain in ("", "ai.onnx") and "seed" not in node.attributes.data:
        if node.op_type in RANDOM_OPS:
            return True
        if node.op_type == "Dropout" and _may_train(node):
            return True
    bodies = subgraphs(node)
    functions = model.functions
    if functions and (function := functions.get(node.op_identifier())) is not None:
        bodies.append(function.graph)
    return any(draws_random(inner, model) for body in bodies for inner in body)


def random_outputs(model: ir.Model) -> tuple[list[str], list[ir.Node]]:
    """Graph outputs that depend on random numbers, and the nodes of the graph that draw them."""
    drawn: set[ir.Value] = set()
    nodes: list[ir.Node] = []
    for node in model.graph:
        if draws_random(node, model):
            nodes.append(node)
            drawn.update(node.outputs)
        elif drawn and not drawn.isdisjoint(consumed_values(node)):
            drawn.update(node.outputs)
    names = dict.fromkeys(v.name or "" for v in model.graph.outputs if v in drawn)
    return list(names), nodes


def _may_train(node: ir.Node) -> bool:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    ratio, training = node.inputs[1], node.inputs[2]
    for switch in (training, ratio):
        known = ir.convenience.get_const_tensor(switch) if switch is not None else None
        overridable = switch is not None and switch.is_graph_input()
        if known is not None and not overridable and not known.numpy().any():
            return False
    return True
