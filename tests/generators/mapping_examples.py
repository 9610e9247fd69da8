"""Measured mappings of the small fabric, whose labels are made by a rule."""

from __future__ import annotations

import numpy as np

from mcm_models.mapping_model.data_set import Learned, MappingData, MeasuredGraph, make_of
from tests.generators.small_fabric import legal_mappings, small_fabric, small_problem


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
