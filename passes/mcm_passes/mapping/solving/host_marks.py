"""Marks on the ops that the host runs, for whoever reads a chip's model."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.chips import GROUP_PROPERTY, RUNS_ON_HOST, RUNS_ON_PROPERTY
from mcm_compiler.contracts.cost import CostModel, KnowsHostOps


def mark_host_ops(graph: ir.Graph, cost_model: CostModel) -> None:
    """Sets `metadata_props["mcm.runs_on"]` on the ops of each kernel that the host runs.

    Args:
        graph: with the fusion groups of its ops in their metadata.
        cost_model: of the target; where it knows of no host, nothing is marked.
    """
    for node in graph:
        node.metadata_props.pop(RUNS_ON_PROPERTY, None)  # of an earlier compile
    if not isinstance(cost_model, KnowsHostOps):
        return
    kernels: dict[str, list[ir.Node]] = {}
    for node in graph:
        group = node.metadata_props.get(GROUP_PROPERTY)
        key = f"node {node.name}" if group is None else f"group {group}"
        kernels.setdefault(key, []).append(node)
    for nodes in kernels.values():
        if runs_on_host(cost_model, nodes):
            for node in nodes:
                node.metadata_props[RUNS_ON_PROPERTY] = RUNS_ON_HOST
