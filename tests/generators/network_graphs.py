"""Graphs of random features for the network of `tools/reproduce`, which tests put on the path."""

from __future__ import annotations

import numpy as np
from mapping_network.graphs import MappingGraph
from mapping_network.layout import BRANCH_COLUMNS, GLOBAL_COLUMNS, LINK_COLUMNS, UNIT_COLUMNS


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
