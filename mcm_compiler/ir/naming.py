"""Unique names: for the nodes of a file, and for what passes add.

Real files hold nodes without a name and nodes that share one; onnxruntime refuses the latter.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.chips import ORIGIN_PROPERTY
from mcm_compiler.ir.constants import subgraphs

ORIGINAL_NAME_PROPERTY = "mcm.original_name"
"""Key in `metadata_props`: the name that a renamed node had in the file."""


class UnusedNames:
    """Names that no node and no value has yet, anywhere in a graph or in its subgraphs.

    Args:
        graph: whose names are taken.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._taken: set[str] = set()
        self._collect(graph)

    def take(self, wanted: str) -> str:
        """`wanted`, with a number behind it where that is taken; it is taken from now on."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def _collect(self, graph: ir.Graph) -> None:
        self._taken.update(value.name or "" for value in graph.inputs)
        self._taken.update(graph.initializers)
        for node in graph:
            self._taken.add(node.name or "")
            self._taken.update(value.name or "" for value in node.outputs)
            for inner in subgraphs(node):
                self._collect(inner)


def name_nodes(model: ir.Model) -> int:
    """Gives every node of the main graph a unique name, and records it as its origin.

    Returns:
        The number of nodes that were named or renamed.
    """
    taken: set[str] = set()
    wanting: list[ir.Node] = []
    for node in model.graph:
        if node.name and node.name not in taken:
            taken.add(node.name)
        else:
            wanting.append(node)
    next_suffix: dict[str, int] = {}
    for node in wanting:
        if node.name:
            node.metadata_props[ORIGINAL_NAME_PROPERTY] = node.name
        base = node.name or node.op_type
        suffix = next_suffix.get(base, 1)
        while f"{base}_{suffix}" in taken:
            suffix += 1
        next_suffix[base] = suffix + 1
        node.name = f"{base}_{suffix}"
        taken.add(node.name)
    for node in model.graph:
        node.metadata_props[ORIGIN_PROPERTY] = node.name or ""
    return len(wanting)
