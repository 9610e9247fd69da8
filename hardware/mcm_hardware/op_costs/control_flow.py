"""Ops with bodies: how often each body runs (ONNX standard: If, Loop, Scan, SequenceMap)."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.graph.trip_counts import trips_of

CONTROL_FLOW = frozenset({("", "If"), ("", "Loop"), ("", "Scan"), ("", "SequenceMap")})
"""Ops whose cost is that of their bodies."""


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
    """The bodies of a control-flow op, and how often they run (`trips_of`)."""
    return Bodies(tuple(subgraphs(node)), trips_of(node).count)
