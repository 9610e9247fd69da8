"""Layers in order over fast devices: what experts write down, and others are measured by."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_passes.families.box.clusters.adjacency import edge_bytes, fastest_times, quotient
from mcm_passes.families.box.clusters.weight_clusters import SMALL_BYTES, spread_along
from mcm_passes.families.box.search.starts import device_speeds, fast_devices
from mcm_passes.families.box.search.units import fallbacks

STACKS = (1, 2)
"""How often layers go round the devices. An encoder and a decoder each use all of them; names do
not tell how many stacks there are."""


def layered_placements(problem: StepProblem, box: Box) -> Ints:
    """`[stacks, N]`, the layers over the fast devices, once for each count of `STACKS`.

    Raises:
        CompileError: MCM-D050 where no op has a layer.
    """
    layer = layers_of_all(problem)
    speeds = device_speeds(fastest_times(problem, box), problem.time_s, box.kind_of)
    fast = fast_devices(speeds)
    count, ways = int(layer.max()) + 1, fallbacks(problem, box)
    found: list[Ints] = []
    for stacks in STACKS:
        turn = layer.astype(np.int64) * (stacks * len(fast)) // count
        found.append(ways.placement(fast[turn % len(fast)]))
    return np.stack(found)


def has_layers(problem: StepProblem) -> bool:
    """Whether the name of any op tells a layer."""
    return bool((problem.layer >= 0).any())


def layers_of_all(problem: StepProblem) -> Ints:
    """`[N]`, layer of each op, those without one by the nearest op that has one.

    Raises:
        CompileError: MCM-D050 where no op has a layer.
    """
    known = np.flatnonzero(problem.layer >= 0)
    if not has_layers(problem):
        raise CompileError(
            Diagnostic(
                "MCM-D050",
                "no op's name tells which layer it belongs to",
                at="placer expert",
                hint="name scopes like layer.0 in the model, or choose another placer",
            )
        )
    count = problem.num_ops
    graph = quotient(problem.edges, edge_bytes(problem), np.arange(count), count)
    nearest = spread_along(graph, known, SMALL_BYTES)
    layer = np.where(nearest >= 0, problem.layer[known[nearest]], 0)
    first = np.unique(problem.together, return_index=True)[1]
    return layer[first[problem.together]].astype(np.int32)
