"""Snapshot of a graph, so that a change of it is noticed whichever code made it.

Passes need not say what they changed: the manager compares. One look costs time linear in the
size of the graph; weights take part by the identity of their tensors, whose values are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from mcm_compiler.graph.constants import subgraphs

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True)
class GraphSnapshot:
    """The structure of a model at one moment; two that are equal describe the same graph.

    What counts: ops with their names, attributes, operands and results, in their order; names,
    types and shapes of values; inputs, outputs and weights; everything in bodies and in functions;
    opsets. What does not: facts, `metadata_props` and documentation.

    Attributes:
        objects: every op and every tensor by identity, which keeps them from being replaced by
            others at the same address.
        digest: hash of all that counts.
    """

    objects: tuple[Any, ...]
    digest: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphSnapshot):
            return NotImplemented
        return (
            self.digest == other.digest
            and len(self.objects) == len(other.objects)
            and all(a is b for a, b in zip(self.objects, other.objects, strict=True))
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def snapshot(model: ir.Model) -> GraphSnapshot:
    """Take a snapshot of `model`; linear in its size."""
    objects: list[Any] = []
    parts: list[int] = [hash(tuple(sorted(model.opset_imports.items())))]
    _add_graph(model.graph, objects, parts)
    for key, function in model.functions.items():
        parts.append(hash(key))
        parts += _values(function.inputs)
        for node in function:
            _add_node(node, objects, parts)
        parts += _values(function.outputs)
    return GraphSnapshot(tuple(objects), hash(tuple(parts)))


def _add_graph(graph: ir.Graph, objects: list[Any], parts: list[int]) -> None:
    parts += _values(graph.inputs)
    parts.append(len(graph.initializers))
    for value in graph.initializers.data.values():
        parts.append(_value(value))
        objects.append(value.const_value)
    for node in graph:
        _add_node(node, objects, parts)
    parts += _values(graph.outputs)


def _add_node(node: ir.Node, objects: list[Any], parts: list[int]) -> None:
    inputs = node.inputs
    objects.append(node)
    parts.append(
        hash(
            (
                node.domain,
                node.op_type,
                node.overload,
                node.name,
                tuple([None if value is None else value.name for value in inputs]),
                tuple(map(id, inputs)),
            )
        )
    )
    parts += _values(node.outputs)
    if attributes := node.attributes.data:
        for attribute in attributes.values():
            if attribute.is_ref():
                parts.append(hash((attribute.name, attribute.ref_attr_name)))
            elif attribute.type not in _GRAPHS:
                # Attributes cannot be changed, only replaced.
                objects.append(attribute)
        for graph in subgraphs(node):
            _add_graph(graph, objects, parts)


def _values(values: Iterable[ir.Value]) -> Iterator[int]:
    return map(_value, values)


def _value(value: ir.Value) -> int:
    kind, shape = value.type, value.shape
    # The hash of a type is that of its text, which is slow to make.
    known = kind.dtype if type(kind) is ir.TensorType else kind
    return hash((value.name, known, None if shape is None else shape.dims))
