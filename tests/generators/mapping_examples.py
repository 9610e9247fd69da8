"""Measured mappings and graphs of the small fabric, whose labels are made by a rule."""

from __future__ import annotations

import numpy as np

from mcm_models.mapping_model.data_set import MappingData, MeasuredGraph
from mcm_models.mapping_model.graphs import MappingGraph
from mcm_models.mapping_model.layout import (
    BRANCH_COLUMNS,
    GLOBAL_COLUMNS,
    LINK_COLUMNS,
    UNIT_COLUMNS,
    Learned,
    make_of,
)
from tests.generators.small_fabric import legal_mappings, small_fabric, small_problem


def drawn_graph(seed: int, units: int = 6) -> MappingGraph:
    """A graph of random features."""
    rng = np.random.default_rng(seed)
    leaves, links, pairs = 2 * units, 3 * units, 5 * units

    def singles(*shape: int) -> np.ndarray:
        return rng.random(shape).astype(np.float32)

    return MappingGraph(
        op=rng.integers(0, 12, units).astype(np.int32),
        units=singles(units, len(UNIT_COLUMNS)),
        source=rng.integers(0, units, leaves).astype(np.int32),
        target=rng.integers(0, units, leaves).astype(np.int32),
        branches=singles(leaves, len(BRANCH_COLUMNS)),
        links=singles(links, len(LINK_COLUMNS)),
        pair_branch=np.sort(rng.integers(0, leaves, pairs)).astype(np.int32),
        pair_link=rng.integers(0, links, pairs).astype(np.int32),
        pair_weight=singles(pairs),
        whole=singles(len(GLOBAL_COLUMNS)),
    )


def measured_graph(seed: int, count: int = 4) -> MeasuredGraph:
    """Mappings of the small problem; the period grows with the place of the output."""
    fabric, problem = small_fabric(), small_problem()
    mappings = legal_mappings(problem, fabric, count, np.random.default_rng(seed))
    period = 40.0 + mappings.site[:, -1]
    return MeasuredGraph(
        family="gemm",
        problem=problem,
        bound_cycles=40.0,
        mappings=mappings,
        period_cycles=period,
        latency_cycles=3 * period,
        error=np.zeros(count),
        origin=np.arange(count, dtype=np.int32) % 3,
    )


def measured_data(graphs: int = 3) -> MappingData:
    """A small data set."""
    fabric = small_fabric()
    learned = Learned(make_of(fabric), "lowering", "physics")
    return MappingData(learned, fabric, tuple(measured_graph(k) for k in range(graphs)), 7)
