"""Ops and values in place of others, and taking out of a graph what nothing reads any more."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir


def fixed_shape(value: ir.Value) -> tuple[int, ...]:
    """The shape of a value of which every extent is known."""
    assert value.shape is not None
    return tuple(value.shape.numpy())


def op_like(
    node: ir.Node,
    inputs: Sequence[ir.Value | None],
    outputs: Sequence[ir.Value],
    name: str,
    attributes: Sequence[ir.Attr] | None = None,
) -> ir.Node:
    """An op of the same kind, with the metadata and, where none are given, the attributes."""
    return ir.Node(
        node.domain,
        node.op_type,
        inputs,
        node.attributes.values() if attributes is None else attributes,
        outputs=outputs,
        name=name,
        metadata_props=dict(node.metadata_props),
    )


def concat_in_place(
    node: ir.Node, result: ir.Value, parts: Sequence[ir.Value], axis: int, name: str
) -> ir.Node:
    """A `Concat` of the parts of a result of an op, which all read from now on in its place."""
    concat = ir.Node(
        "",
        "Concat",
        parts,
        [ir.AttrInt64("axis", axis)],
        outputs=[ir.val(result.name, shape=result.shape, type=result.type)],
        name=name,
        metadata_props=dict(node.metadata_props),
    )
    result.replace_all_uses_with(concat.outputs[0], replace_graph_outputs=True)
    return concat


def drop_unused(graph: ir.Graph, values: Sequence[ir.Value]) -> None:
    """Removes those of `values` that nothing reads, and what only they were made of."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if value.uses() or value.is_graph_output() or value.is_graph_input():
            continue
        producer = value.producer()
        if producer is None:
            graph.initializers.pop(value.name or "", None)
        elif producer.graph is graph and not any(v.uses() for v in producer.outputs):
            pending += [operand for operand in producer.inputs if operand is not None]
            graph.remove(producer, safe=True)
