"""A small fabric and a legal problem on it, both made by hand."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    IO,
    MEMORY,
    OP_KINDS,
    Fabric,
    MappingProblem,
    Mappings,
)
from mcm_passes.families.fabric.routing_trees import Routed


def as_mapping(state: Routed) -> Mappings:
    """The mapping of a state alone, as a batch of one."""
    return Mappings(state.site[None].copy(), state.turn[None].copy())


def small_fabric(rows: int = 3, cols: int = 4) -> Fabric:
    """A checkerboard that begins with a compute site, with an I/O site at both ends of each row."""
    places = np.arange(rows * cols)
    inner = np.where((places // cols + places % cols) % 2 == 0, COMPUTE, MEMORY)
    ends = np.sort(np.concatenate([np.arange(rows) * cols, np.arange(rows) * cols + cols - 1]))
    inside = np.full(rows * cols, -1)
    return Fabric(
        name="small",
        rows=rows,
        cols=cols,
        kind=np.concatenate([inner, np.full(len(ends), IO)]).astype(np.int32),
        switch=np.concatenate([places, ends]).astype(np.int32),
        channel=np.concatenate([inside, np.arange(len(ends)) // 3]).astype(np.int32),
        num_channels=-(-len(ends) // 3),
        clock_hz=1e9,
        macs_per_cycle=256,
        lanes=32,
        flit_elements=32,
        element_bytes=2,
        memory_bytes=1 << 18,
        banks=4,
        hop_cycles=3,
        fifo_flits=4,
        window_flits=16,
        output_flits=4,
    )


def small_problem() -> MappingProblem:
    """Input, a product on two units with weights, a memory unit behind it, and the output.

    Units: 0 the input, 1 memory for it, 2 and 3 compute units, 4 their weights, 5 memory for the
    result, 6 the output. Streams: 0 -> 1, 1 -> {2, 3}, 4 -> 2, 4 -> 3, 2 -> 5, 3 -> 5, 5 -> 6.
    """
    ops = ["input", "buffer", "product", "product", "weights", "buffer", "output"]
    return MappingProblem(
        name="product",
        stages=("in", "product"),
        kind=np.array([IO, MEMORY, COMPUTE, COMPUTE, MEMORY, MEMORY, IO], np.int32),
        op=np.array([OP_KINDS.index(name) for name in ops], np.int32),
        stage=np.array([0, 0, 1, 1, 1, 1, 1], np.int32),
        firings=np.array([0, 0, 8, 8, 0, 0, 0], np.int64),
        cycles=np.array([0, 0, 5, 5, 0, 0, 0], np.int64),
        burst=np.array([0, 0, 2, 2, 0, 0, 0], np.int64),
        depth=np.array([0, 2, 0, 0, 0, 2, 0], np.int32),
        memory_bytes=np.array([0, 4096, 0, 0, 8192, 4096, 0], np.int64),
        source=np.array([0, 1, 4, 4, 2, 3, 5], np.int32),
        leaf_ptr=np.array([0, 1, 3, 4, 5, 6, 7, 8], np.int32),
        leaf=np.array([1, 2, 3, 2, 3, 5, 5, 6], np.int32),
        flits=np.array([32, 32, 24, 24, 16, 16, 32], np.int64),
    )


def legal_mappings(
    problem: MappingProblem, fabric: Fabric, count: int, rng: np.random.Generator
) -> Mappings:
    """Mappings drawn uniformly: units on sites of their kind, and streams that turn either way."""
    site = np.empty((count, problem.num_units), np.int32)
    for row in site:
        for kind in (COMPUTE, MEMORY, IO):
            units = np.flatnonzero(problem.kind == kind)
            row[units] = rng.choice(fabric.of_kind(kind), len(units), replace=False)
    turn = rng.integers(0, 2, (count, problem.num_streams)).astype(np.int32)
    return Mappings(site, turn)
