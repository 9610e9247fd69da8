"""A copy of a model that is in memory, whatever a caller built."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import onnx_ir as ir
from onnx_ir._cloner import Cloner

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.annotations import facts_of, properties_of
from mcm_compiler.graph.constants import graphs_of, subgraphs
from mcm_compiler.graph.static_shapes import shape_for_copy
from mcm_compiler.graph.structure import MAX_SUBGRAPH_DEPTH, check_structure
from mcm_compiler.ir.rewriting.writer import DataLocation, proto_with_references


def clone(model: ir.Model) -> ir.Model:
    """A copy that shares weights, and shapes that cannot be changed, with `model`.

    `onnx_ir` gives the ops and values that it copies an empty store for facts, which takes as much
    memory as a third of the graph. They are removed.
    """
    with _quick_copies():
        copy = model.clone()
    for one in (model, copy):
        for owner in _owners(one):
            store = cast("Any", owner)
            if store._metadata is not None and not store._metadata:
                store._metadata = None
            if not store._metadata_props:
                store._metadata_props = None
    return copy


@contextmanager
def _quick_copies() -> Generator[None]:
    """Has onnx_ir copy what has no facts by `_plain_copy`; outside the block it is as it was."""
    cloner = cast("Any", Cloner)
    known = cloner.clone_node, cloner._clone_or_get_value

    def clone_node(self: Any, node: ir.Node, deep_copy: bool = False) -> ir.Node:
        return _plain_copy(node, self._value_map) or known[0](self, node, deep_copy)

    def clone_value(self: Any, value: ir.Value, deep_copy: bool = False) -> ir.Value:
        if value not in self._value_map and not _is_noted(value):
            self._value_map[value] = _copy_of(value)
        return known[1](self, value, deep_copy)

    cloner.clone_node, cloner._clone_or_get_value = clone_node, clone_value
    try:
        yield
    finally:
        cloner.clone_node, cloner._clone_or_get_value = known


def _plain_copy(node: ir.Node, copies: dict[ir.Value, ir.Value]) -> ir.Node | None:
    """A copy of an op with nothing but attributes; None for other ops, and those in bodies.

    Args:
        node: the op.
        copies: of values; those that it makes are added.
    """
    made, attributes = node.outputs, node.attributes.data
    if facts_of(node) or any(map(_is_noted, made)):
        return None
    plain = not attributes or not (subgraphs(node) or any(a.is_ref() for a in attributes.values()))
    if not plain or node.device_configurations:
        return None
    inputs = [None if value is None else copies.get(value) for value in node.inputs]
    if inputs.count(None) != node.inputs.count(None):
        return None
    outputs = list(map(_copy_of, made))
    copies.update(zip(made, outputs, strict=True))
    return ir.Node(
        node.domain,
        node.op_type,
        inputs,
        tuple(attributes.values()),
        overload=node.overload,
        outputs=outputs,
        version=node.version,
        name=node.name,
        doc_string=node.doc_string,
        metadata_props=dict(properties_of(node)) or None,
    )


def _is_noted(value: ir.Value) -> bool:
    return bool(facts_of(value) or properties_of(value))


def _copy_of(value: ir.Value) -> ir.Value:
    return ir.Value(
        name=value.name,
        shape=shape_for_copy(value.shape),
        type=value.type,
        doc_string=value.doc_string,
        const_value=value.const_value,
    )


def _owners(model: ir.Model) -> Iterator[ir.Node | ir.Value]:
    for graph in graphs_of(model):
        yield from graph.inputs
        yield from graph.initializers.data.values()
        for node in graph:
            yield node
            yield from node.outputs


def copied(model: ir.Model) -> ir.Model:
    """A copy that shares its weights with `model`, which is as it was afterwards.

    Its nodes are in the order of `model`, or sorted where that is not topological: `onnx_ir` copies
    node by node, and fails at one that reads what no node before it makes.

    Raises:
        CompileError: MCM-I014 for graphs that are nested too deep; where the model cannot be
            copied what `check_structure` finds, such as MCM-I011 for values that nothing makes, or
            MCM-I003 for values of other models.
    """
    _check_depth(model)
    try:
        return clone(model)
    except Exception:  # the cloner wraps whatever it meets
        proto = proto_with_references(model, lambda tensor: DataLocation("w", 0, tensor.nbytes))
        if faults := check_structure(proto.graph):
            raise CompileError(faults) from None
        orders = {graph: list(graph) for graph in graphs_of(model)}
        try:
            for graph in orders:
                graph.sort()
            return clone(model)
        except Exception as error:
            raise CompileError(_foreign(model, error)) from error
        finally:
            for graph, nodes in orders.items():
                graph.remove(nodes)
                graph.extend(nodes)


def _foreign(model: ir.Model, error: Exception) -> Diagnostic:
    """Diagnostic of a model whose names are right and which cannot be copied all the same."""
    cause = error
    while isinstance(cause.__cause__, Exception):
        cause = cause.__cause__
    return Diagnostic(
        "MCM-I003",
        f"the graph cannot be copied: {' '.join(str(cause).split())[:300]}",
        at=f"graph {quote(model.graph.name or '')}",
        hint="every value that a node reads must be the one that an input, a weight or a node of "
        "the same model gives, not another one of its name",
    )


def _check_depth(model: ir.Model) -> None:
    """Raises MCM-I014 before anything that calls itself for each level walks through the graphs."""
    pending = [(model.graph, 0), *((function.graph, 0) for function in model.functions.values())]
    while pending:
        graph, depth = pending.pop()
        if depth > MAX_SUBGRAPH_DEPTH:
            raise CompileError.of(
                "MCM-I014",
                f"subgraphs are nested more than {MAX_SUBGRAPH_DEPTH} deep",
                at=f"graph {quote(graph.name or '')}",
            )
        for node in graph:
            if node.attributes.data:
                pending += ((inner, depth + 1) for inner in subgraphs(node))
