"""What the network sees of mappings, and batches of them padded to one of few shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mapping_network.layout import Singles
from mcm_compiler.arrays.types import Ints


class MappingGraph(NamedTuple):
    """One mapping: U units, L branches, K links that are used, P pairs of a branch and a link.

    Attributes:
        op: `[U]`, of each unit.
        units: `[U, UNIT_COLUMNS]`.
        source: `[L]`, unit that each branch leaves.
        target: `[L]`, unit that it goes to.
        branches: `[L, BRANCH_COLUMNS]`.
        links: `[K, LINK_COLUMNS]`.
        pair_branch: `[P]`, ascending.
        pair_link: `[P]`.
        pair_weight: `[P]`, flits of the branch over the bound; those of a stream that share a link
            share its flits.
        whole: `[GLOBAL_COLUMNS]`.
    """

    op: Ints
    units: Singles
    source: Ints
    target: Ints
    branches: Singles
    links: Singles
    pair_branch: Ints
    pair_link: Ints
    pair_weight: Singles
    whole: Singles

    @property
    def shape(self) -> GraphShape:
        """How large it is."""
        return GraphShape(len(self.op), len(self.source), len(self.links), len(self.pair_link))


class GraphShape(NamedTuple):
    """Rows that graphs have, or are padded to.

    Attributes:
        units: U.
        branches: L.
        links: K.
        pairs: P.
    """

    units: int
    branches: int
    links: int
    pairs: int

    def holds(self, other: GraphShape) -> bool:
        """Whether a graph of another shape can be padded to this one."""
        return all(mine >= its for mine, its in zip(self, other, strict=True))


class PaddedGraphs(NamedTuple):
    """B graphs of one shape. Rows beyond a graph's own are 0, and their ends are its row 0.

    Attributes:
        op: `[B, U]`.
        units: `[B, U, UNIT_COLUMNS]`.
        is_unit: `[B, U]`, 1 or 0.
        source: `[B, L]`.
        target: `[B, L]`.
        branches: `[B, L, BRANCH_COLUMNS]`.
        is_branch: `[B, L]`.
        links: `[B, K, LINK_COLUMNS]`.
        pair_branch: `[B, P]`.
        pair_link: `[B, P]`.
        pair_weight: `[B, P]`.
        is_pair: `[B, P]`.
        whole: `[B, GLOBAL_COLUMNS]`.
    """

    op: Ints
    units: Singles
    is_unit: Singles
    source: Ints
    target: Ints
    branches: Singles
    is_branch: Singles
    links: Singles
    pair_branch: Ints
    pair_link: Ints
    pair_weight: Singles
    is_pair: Singles
    whole: Singles


def padded(graphs: Sequence[MappingGraph], shape: GraphShape) -> PaddedGraphs:
    """Graphs as one batch.

    Raises:
        ValueError: if one does not fit in the shape.
    """
    for graph in graphs:
        if not shape.holds(graph.shape):
            raise ValueError(f"a graph of {graph.shape} does not fit in {shape}")
    return PaddedGraphs(
        op=_rows([g.op for g in graphs], shape.units),
        units=_rows([g.units for g in graphs], shape.units),
        is_unit=_there([len(g.op) for g in graphs], shape.units),
        source=_rows([g.source for g in graphs], shape.branches),
        target=_rows([g.target for g in graphs], shape.branches),
        branches=_rows([g.branches for g in graphs], shape.branches),
        is_branch=_there([len(g.source) for g in graphs], shape.branches),
        links=_rows([g.links for g in graphs], shape.links),
        pair_branch=_rows([g.pair_branch for g in graphs], shape.pairs),
        pair_link=_rows([g.pair_link for g in graphs], shape.pairs),
        pair_weight=_rows([g.pair_weight for g in graphs], shape.pairs),
        is_pair=_there([len(g.pair_link) for g in graphs], shape.pairs),
        whole=np.stack([g.whole for g in graphs]),
    )


def buckets(shapes: Sequence[GraphShape], count: int) -> tuple[list[GraphShape], Ints]:
    """Few shapes that hold many graphs: each costs a compilation, and padding costs time.

    Args:
        shapes: of the graphs, of which there is at least one.
        count: shapes at most.

    Returns:
        The shapes, and `[N]`, which of them each graph is padded to.
    """
    sizes = np.array(shapes, np.int64)
    order = np.argsort(sizes.sum(axis=1), kind="stable")
    parts = [part for part in np.array_split(order, count) if len(part)]
    chosen: list[GraphShape] = []
    bucket = np.zeros(len(shapes), np.int32)
    for number, part in enumerate(parts):
        most = -(-sizes[part].max(axis=0) // 8) * 8
        chosen.append(GraphShape(*(int(size) for size in most)))
        bucket[part] = number
    return chosen, bucket


def _rows(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    out = np.zeros((len(arrays), length, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return out


def _there(lengths: Sequence[int], length: int) -> Singles:
    return (np.arange(length) < np.array(lengths)[:, None]).astype(np.float32)
