"""Unique names for nodes.

Real files hold nodes without a name and nodes that share one; onnxruntime refuses the latter.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.chips import ORIGIN_PROPERTY

ORIGINAL_NAME_PROPERTY = "mcm.original_name"
"""Key in `metadata_props`: the name that a renamed node had in the file."""


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
