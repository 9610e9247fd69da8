"""Ops with bodies: how often each body runs (ONNX standard: If, Loop, Scan, SequenceMap)."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.constants import subgraphs
from mcm_hardware.op_costs.node_shapes import NodeShapes

CONTROL_FLOW = frozenset({("", "If"), ("", "Loop"), ("", "Scan"), ("", "SequenceMap")})
"""Ops whose cost is that of their bodies."""

MAX_TRIPS = 2**40
"""Where trip counts saturate; loops 'without end' are written with the greatest integer."""

_ENDLESS = 2**62


@dataclass(frozen=True)
class Bodies:
    """What a control-flow op runs.

    Attributes:
        graphs: its bodies; of several, one runs (the branches of an `If`).
        trips: how often it runs.
    """

    graphs: tuple[ir.Graph, ...]
    trips: int


def bodies_of(node: ir.Node) -> Bodies:
    """The bodies of a control-flow op.

    A `Loop` runs as often as its constant trip count says, and once where that is unknown or
    means 'until the condition fails'. A `Scan` runs once per element along the scanned axis.
    A `SequenceMap` runs once: the length of a sequence is known only at run time.
    """
    graphs = tuple(subgraphs(node))
    shapes = NodeShapes(node)
    trips = 1
    if node.op_type == "Loop":
        limit = shapes.scalar(0)
        if limit is not None and 0 <= limit < _ENDLESS:
            trips = int(limit)
    elif node.op_type == "Scan":
        scanned = shapes.integer("num_scan_inputs")
        axes = shapes.integers("scan_input_axes")
        first = len(node.inputs) - scanned
        if scanned > 0 and first >= 0:
            trips = shapes.dim(first, axes[0] if axes else 0)
    return Bodies(graphs, min(trips, MAX_TRIPS))
