"""Graphs in arrays of few sizes, so that JAX compiles few programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mcm_compiler.diagnostics import CompileError
from mcm_models.policy.features import GraphFeatures, Singles

Ints = npt.NDArray[np.int32]

_Number = TypeVar("_Number", bound=np.generic)

EDGES_PER_NODE = 2
MIN_NODES = 64

MOST_NODES = 65_535
"""Nodes of the largest graph that a bucket is made for; what learning keeps of it stays below a
gigabyte."""


class PaddedGraph(NamedTuple):
    """One graph, padded to a bucket; arrays of NumPy, or of what a formula is evaluated in.

    The last node is a stand-in that padded edges lead from and to.

    Attributes:
        op_class: `[P]`.
        values: `[P, F]`.
        source: `[Q]`, edges sorted by `target`.
        target: `[Q]`.
        by_source: `[Q]`, the same edges sorted by `source`: positions in the above.
        in_share: `[P]`, one over the number of producers, 0 where there are none.
        out_share: `[P]`, one over the number of consumers, likewise.
        real: `[P]`, 1 for nodes, 0 for padding.
    """

    op_class: Any
    values: Any
    source: Any
    target: Any
    by_source: Any
    in_share: Any
    out_share: Any
    real: Any


@dataclass(frozen=True, order=True)
class Bucket:
    """A padded size: P nodes (one of them the stand-in) and Q edges."""

    nodes: int
    edges: int


def bucket_of(num_nodes: int, num_edges: int) -> Bucket:
    """The smallest bucket that holds a graph: 64 nodes times powers of the square root of 2.

    Raises:
        CompileError: MCM-L005 for more than `MOST_NODES` nodes, or `EDGES_PER_NODE` times as many
            edges.
    """
    if num_nodes > MOST_NODES or num_edges > MOST_NODES * EDGES_PER_NODE:
        raise CompileError.of(
            "MCM-L005",
            f"a graph of {num_nodes} nodes and {num_edges} edges is too large to learn on: "
            f"{MOST_NODES} nodes and {MOST_NODES * EDGES_PER_NODE} edges are the most",
            at="the policy",
        )
    needed = max(num_nodes + 1, -(-num_edges // EDGES_PER_NODE), MIN_NODES)
    nodes = MIN_NODES
    k = 0
    while nodes < needed:
        k += 1
        # Multiples of 16 suit vector units.
        nodes = round(MIN_NODES * 2 ** (k / 2) / 16) * 16
    return Bucket(nodes, nodes * EDGES_PER_NODE)


def pad_graph(features: GraphFeatures) -> PaddedGraph:
    """Pads a graph to its bucket."""
    return _padded(features, bucket_of(features.num_nodes, features.source.size))


def whole_graph(features: GraphFeatures) -> PaddedGraph:
    """A graph without padding."""
    return _padded(features, Bucket(features.num_nodes, features.source.size))


def _padded(features: GraphFeatures, bucket: Bucket) -> PaddedGraph:
    n, e = features.num_nodes, features.source.size
    stand_in = bucket.nodes - 1
    source = np.full(bucket.edges, stand_in, np.int32)
    target = np.full(bucket.edges, stand_in, np.int32)
    source[:e], target[:e] = features.source, features.target
    return PaddedGraph(
        op_class=pad_rows(features.op_class, bucket.nodes),
        values=pad_rows(features.values, bucket.nodes),
        source=source,
        target=target,
        by_source=np.argsort(source, kind="stable").astype(np.int32),
        in_share=_shares(features.target, n, bucket.nodes),
        out_share=_shares(features.source, n, bucket.nodes),
        real=pad_rows(np.ones(n, np.float32), bucket.nodes),
    )


def pad_rows(rows: npt.NDArray[_Number], nodes: int, axis: int = 0) -> npt.NDArray[_Number]:
    """Zeros after the rows of real nodes along an axis."""
    shape = list(rows.shape)
    shape[axis] = nodes
    padded = np.zeros(shape, rows.dtype)
    padded.swapaxes(0, axis)[: rows.shape[axis]] = rows.swapaxes(0, axis)
    return padded


def _shares(ends: Ints, num_nodes: int, padded: int) -> Singles:
    degree = np.bincount(ends, minlength=num_nodes)
    share = np.divide(1.0, degree, out=np.zeros(num_nodes), where=degree > 0)
    return pad_rows(share.astype(np.float32), padded)
