"""Copying and removing ops, and making them read other values, with what subgraphs capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from mcm_compiler.graph.annotations import facts_of
from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.graph.static_shapes import shape_for_copy


def copy_node(node: ir.Node, value_of: Mapping[ir.Value, ir.Value], name: str) -> ir.Node:
    """A copy of `node` in no graph yet.

    Tensors in attributes are shared, subgraphs are copied. Outputs keep their names, types and
    shapes; the caller renames them where the copy goes into the same graph. Metadata and
    annotations are copied.

    Args:
        node: the original.
        value_of: what the copy reads instead of a value of the outer graph; a value that is not
            in it is read as it is.
        name: name of the copy.
    """
    attributes = [
        attribute
        if attribute.is_ref() or attribute.type not in _GRAPH_TYPES
        else _copy_graph_attribute(attribute, value_of)
        for attribute in node.attributes.data.values()
    ]
    copy = ir.Node(
        node.domain,
        node.op_type,
        [None if v is None else value_of.get(v, v) for v in node.inputs],
        attributes,
        overload=node.overload,
        num_outputs=len(node.outputs),
        version=node.version,
        name=name,
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )
    if facts := facts_of(node):
        copy.meta.data.update(facts)
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.name, new.doc_string = old.name, old.doc_string
        new.type = old.type
        new.shape = shape_for_copy(old.shape)
    return copy


def rewire(node: ir.Node, value_of: Mapping[ir.Value, ir.Value]) -> None:
    """Makes `node`, its subgraphs included, read `value_of[v]` wherever it reads v."""
    for index, value in enumerate(node.inputs):
        if value is not None and value in value_of:
            node.replace_input_with(index, value_of[value])
    for graph in subgraphs(node):
        _rewire_graph(graph, value_of)


def remove_nodes(graph: ir.Graph, nodes: Iterable[ir.Node]) -> None:
    """Takes `nodes` out of `graph`, and their subgraphs' reads of outer values with them.

    `ir.Graph.remove` forgets what the nodes themselves read, but values that a subgraph captures
    would count as used for ever.

    Raises:
        ValueError: if another node of the graph reads an output of one of them.
    """
    removed = list(nodes)
    for node in removed:
        _stop_capturing(node)
    graph.remove(removed, safe=True)


def _stop_capturing(node: ir.Node) -> None:
    for graph in subgraphs(node):
        for inner in graph:
            _stop_capturing(inner)
            for index in range(len(inner.inputs)):
                inner.replace_input_with(index, None)


_GRAPH_TYPES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _copy_graph_attribute(attribute: ir.Attr, value_of: Mapping[ir.Value, ir.Value]) -> ir.Attr:
    if attribute.type is ir.AttributeType.GRAPH:
        originals = [attribute.as_graph()]
    else:
        originals = list(attribute.as_graphs())
    copies = [graph.clone(allow_outer_scope_values=True) for graph in originals]
    for copy in copies:
        _rewire_graph(copy, value_of)
    value = copies[0] if attribute.type is ir.AttributeType.GRAPH else copies
    return ir.Attr(attribute.name, attribute.type, value, doc_string=attribute.doc_string)


def _rewire_graph(graph: ir.Graph, value_of: Mapping[ir.Value, ir.Value]) -> None:
    for inner in graph:
        rewire(inner, value_of)
    for index, value in enumerate(graph.outputs):
        if value in value_of:
            graph.outputs[index] = value_of[value]
