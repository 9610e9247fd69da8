"""Removes ops that return their input: `Identity`, and `Dropout` outside of training."""

from __future__ import annotations

import onnx_ir as ir

from mcm_passes.rewriting.simplification.replacing import (
    complete_type,
    is_overwritten,
    is_replaceable,
    rounds_at_boundaries,
)


def remove_identities(graph: ir.Graph) -> int:
    """Lets the readers of such an op read its input, in the main graph.

    Names of graph inputs and outputs stay. If the op makes a graph output, its input takes over the
    name; the input must then come from a node and be no graph output itself.

    Returns:
        The number of ops that were removed.
    """
    removed: list[ir.Node] = []
    for node in graph:
        if not _returns_its_input(node):
            continue
        source, result = node.inputs[0], node.outputs[0]
        if source is None or rounds_at_boundaries(source) or rounds_at_boundaries(result):
            continue
        if is_overwritten(source) or is_overwritten(result):
            continue  # of a weight onnxruntime makes a copy, or none: that stays as it is
        if is_replaceable(result, graph):
            complete_type(source, result)
            result.replace_all_uses_with(source)
        elif (
            result.is_graph_output()
            and result.graph is graph
            and all(use.node.graph is graph for use in result.uses())
            and source.producer() is not None
            and is_replaceable(source, graph)
        ):
            complete_type(source, result)
            result.replace_all_uses_with(source, replace_graph_outputs=True)
            source.name, result.name = result.name, None
        else:
            continue
        removed.append(node)
    graph.remove(removed, safe=True)
    return len(removed)


def _returns_its_input(node: ir.Node) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Identity":
        return True
    if node.op_type != "Dropout" or any(mask.uses() for mask in node.outputs[1:]):
        return False
    if any(mask.is_graph_output() for mask in node.outputs[1:]):
        return False
    training = node.inputs[2] if len(node.inputs) > 2 else None
    if training is None:
        return True
    # A graph input may override the default that its initializer gives.
    if training.const_value is None or training.is_graph_input():
        return False
    return not training.const_value.numpy().any()
