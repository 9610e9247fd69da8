"""The layers of a network, found as repeated structure along its chain of ops.

Between two articulation units of the chain, places where a single activation crosses, stands a
segment. A stretch of segments that repeats is a stack of layers, and its period is one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_passes.parallelism.pipelines.node_chain import NodeChain, chain_nodes

MAX_PERIOD = 256
"""Segments of a layer, at most."""

MIN_SHARE = 0.05
"""Share of the model's time from which on a repeated stretch counts as layers."""


def layer_boundaries(model: ir.Model, chain: NodeChain) -> tuple[int, ...]:
    """Cuts between layers, and behind the last layer of each stack: positions in the chain.

    The k-th of them (from 1) is the cut after layer k. The end of the last layer is left out.
    """
    nodes = chain_nodes(model)
    articulation_units = np.flatnonzero(chain.articulation)
    if len(articulation_units) < 2:
        return ()
    ends = [0, *(int(w) for w in articulation_units), len(nodes)]
    tokens = [
        hash(tuple(_signature(node) for node in nodes[start:end])) for start, end in pairwise(ends)
    ]
    seconds = np.array([chain.forward_s[start:end].sum() for start, end in pairwise(ends)])
    cuts: list[int] = []
    _, numbers = np.unique(tokens, return_inverse=True)
    _collect(numbers, seconds, np.array(ends), chain.readers, 0, len(numbers), cuts)
    return tuple(sorted(cuts))[:-1]


def _signature(node: ir.Node) -> tuple[Any, ...]:
    shapes = tuple(
        tuple(v.shape) if v is not None and v.shape is not None else None for v in node.inputs
    )
    return node.domain, node.op_type, shapes


def _collect(
    tokens: np.ndarray,
    seconds: np.ndarray,
    ends: np.ndarray,
    readers: np.ndarray,
    low: int,
    high: int,
    cuts: list[int],
) -> None:
    """Adds the ends of the layers of the costliest repeated stretch, and of what is beside it."""
    found = _costliest_stretch(tokens[low:high], seconds[low:high])
    if found is None or found[2] < MIN_SHARE * seconds.sum():
        return
    start, stop, period = low + found[0], low + found[1], found[3]
    # The stretch may begin with the tail of what stands before the first layer. A layer begins
    # where the residual stream forks, so at the activation that most ops read.
    phases = range(start, min(start + period, stop - 2 * period + 1))
    start = max(phases, key=lambda s: (int(readers[ends[s]]), -s))
    cuts.extend(int(ends[s]) for s in range(start + period, stop + 1, period))
    _collect(tokens, seconds, ends, readers, low, start, cuts)
    _collect(tokens, seconds, ends, readers, stop, high, cuts)


def _costliest_stretch(
    tokens: np.ndarray, seconds: np.ndarray
) -> tuple[int, int, float, int] | None:
    """First and one past the last segment, seconds and period of the costliest repetition."""
    prefix = np.concatenate([[0.0], np.cumsum(seconds)])
    best: tuple[int, int, float, int] | None = None
    for period in range(1, min(MAX_PERIOD, len(tokens) // 2) + 1):
        for first, last in _runs(tokens[period:] == tokens[:-period]):
            stop = last + period
            if last - first < period:
                continue
            cost = float(prefix[stop] - prefix[first])
            if best is None or cost > best[2] * (1 + 1e-9):
                best = first, stop, cost, period
    return best


def _runs(flags: np.ndarray) -> Sequence[tuple[int, int]]:
    """First and one past the last of each run of True."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    return list(
        zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True)
    )
