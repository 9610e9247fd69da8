"""Unique names: for the nodes of a file, and for what passes add.

Real files hold nodes without a name and nodes that share one; onnxruntime refuses the latter.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.graph.constants import subgraphs

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


def name_outputs(model: ir.Model) -> int:
    """Names the unnamed outputs of constants, of calls of model-local functions, and of training.

    An op leaves an output away by giving it no name. A constant becomes a weight, which needs one,
    and within a function the output may be one that its op cannot leave away. onnxruntime crashes
    where a `BatchNormalization` in training leaves away a running statistic. All of this holds
    within functions, whose bodies take the place of their calls or stay as they are.

    Returns:
        The number of outputs that were named.
    """
    count = 0
    for body in (model.graph, *(function.graph for function in model.functions.values())):
        wanting: list[ir.Value] = []
        for node in body.all_nodes():
            constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
            call = node.op_identifier() in model.functions
            if constant or call or is_training_normalisation(node):
                wanting += [value for value in node.outputs if not value.name]
        if wanting:
            names = UnusedNames(body)
            for value in wanting:
                value.name = names.take("unused")
        count += len(wanting)
    return count


def is_training_normalisation(node: ir.Node) -> bool:
    """Return whether `node` is a `BatchNormalization` that makes new running statistics."""
    return (
        node.op_type == "BatchNormalization"
        and node.domain in ("", "ai.onnx")
        and node.attributes.get_int("training_mode", 0) != 0
    )


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
