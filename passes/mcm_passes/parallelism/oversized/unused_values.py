"""Taking out of a graph what nothing reads any more."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir


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
