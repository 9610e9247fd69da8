"""Removes what no graph output depends on.

`onnx_ir`'s `RemoveUnusedNodesPass` is not used here, because it also drops unused optional
outputs, and that changes bits: onnxruntime's MaxPool without `Indices` is another kernel, which
treats NaN differently.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.ir.rewriting.node_copying import remove_nodes


def remove_dead_code(graph: ir.Graph) -> int:
    """Removes nodes and initializers of the main graph that no graph output depends on.

    Graph inputs stay, also those that nothing reads.

    Returns:
        The number of nodes and initializers that were removed.
    """
    live: set[ir.Value] = set(graph.outputs)
    dead: list[ir.Node] = []
    for node in reversed(graph):
        if any(value in live for value in node.outputs):
            live.update(consumed_values(node))
        else:
            dead.append(node)
    remove_nodes(graph, dead)
    unused = [
        name
        for name, value in graph.initializers.data.items()
        if value not in live and not value.is_graph_input()
    ]
    for name in unused:
        del graph.initializers[name]
    return len(dead) + len(unused)
