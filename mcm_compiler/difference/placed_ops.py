"""The ops of a folder's model with where each runs, as both sides of a comparison have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values, placeable_nodes


@dataclass(frozen=True, eq=False)
class PlacedOps:
    """N ops in graph order.

    Attributes:
        names: `[N]`.
        op_types: `[N]`, with the domain where it is not ONNX's own.
        places: `[N]`, chips or devices of each, ascending; empty where it runs nowhere.
        reads: `[N]`, indices of the ops whose results each op reads, in the order of its inputs.
    """

    names: tuple[str, ...]
    op_types: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    reads: tuple[tuple[int, ...], ...]


def placed_ops(graph: ir.Graph, places_of: Callable[[ir.Node], tuple[str, ...]]) -> PlacedOps:
    """The ops of a graph that some chip or device runs.

    Args:
        graph: the source model.
        places_of: tells where a node runs.
    """
    nodes = placeable_nodes(graph)
    index = {node: place for place, node in enumerate(nodes)}
    reads: list[tuple[int, ...]] = []
    for node in nodes:
        makers = (value.producer() for value in consumed_values(node))
        reads.append(tuple(index[maker] for maker in makers if maker in index))
    return PlacedOps(
        tuple(node.name or "" for node in nodes),
        tuple(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in nodes),
        tuple(places_of(node) for node in nodes),
        tuple(reads),
    )
