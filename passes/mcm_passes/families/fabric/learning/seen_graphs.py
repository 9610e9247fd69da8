"""Measured graphs as the network sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_models.mapping_model.data_set import MeasuredGraph
from mcm_models.mapping_model.layout import MappingLayout, initial_weights
from mcm_passes.families.fabric.learning.prepared import prepared_gnn

if TYPE_CHECKING:
    from mcm_models.mapping_model.training import SeenGraph

MOST_ERROR = 0.005
"""Labels that may be wrong by more are not tested on."""

LEARNED_ERROR = 0.1
"""Labels that may be wrong by more are not learned from. Bounds are tens of times as wide as what
plays that were given up are off by, so that those may be learned from, but not tested on."""


def exact(graph: MeasuredGraph) -> np.ndarray:
    """`[B]`, which labels are good enough to test on."""
    return graph.error <= MOST_ERROR


def seen_graphs(fabric: Fabric, graphs: Sequence[MeasuredGraph]) -> list[SeenGraph]:
    """What the network learns from; needs the extra `learn`."""
    from mcm_models.mapping_model.training import SeenGraph

    layout = MappingLayout()
    weights = initial_weights(layout, 0)
    return [
        SeenGraph(
            prepared_gnn(graph.problem, fabric, layout, weights).graphs(graph.mappings),
            np.log(np.maximum(graph.period_cycles / graph.bound_cycles, 1.0)),
            np.log(graph.latency_cycles / graph.bound_cycles),
            (graph.error <= LEARNED_ERROR).astype(np.float64),
        )
        for graph in graphs
    ]
