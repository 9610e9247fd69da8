"""The core of scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

`softmax(scale * Q K^T + mask) V`: from the product of queries and keys to that with the values.
Scaling, masking (added, or selected with `Where`), casts, soft caps, dropout and the guard
against rows without any score may stand in between. What repeats, turns or unpacks a cache for a
product belongs to it: the kernel reads the cache as it is stored.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_passes.rewriting.fusion_rules.grouping import FusionGraph, Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

_ON_SCORES = frozenset({"Add", "Cast", "Clip", "Div", "Max", "Mul", "Sub", "Tanh", "Where"})
_ON_PROBABILITIES = frozenset({"Cast", "Dropout", "Mul", "Where"})
_ON_CACHE = frozenset(
    {"Cast", "Concat", "DequantizeLinear", "Expand", "Mul", "Reshape", "Squeeze", "Transpose",
     "Unsqueeze"}
)  # fmt: skip
_MAX_STEPS = 8
_MAX_SEARCHED = 32


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    graph = grouping.graph
    if len(graph.operands(anchor)) != 2:
        return None
    probabilities = graph.nodes[anchor].inputs[0]
    members = {anchor}
    for _ in range(_MAX_STEPS):
        position = graph.producer(probabilities) if probabilities is not None else None
        if position is None:
            return None
        softmax = _softmax(grouping, position)
        if softmax is not None:
            ops, scores = softmax
            path = _path_to_product(graph, scores, ops)
            if path is None:
                return None
            products = (anchor, *(at for at in path if graph.op(at) == "MatMul"))
            read = [_read_cache(graph, graph.nodes[at].inputs[1]) for at in products]
            return members.union(ops, path, *read)
        if graph.op(position) not in _ON_PROBABILITIES:
            return None
        members.add(position)
        operands = graph.operands(position)
        if graph.op(position) == "Where":
            guard = graph.producer_of(operands[0], "IsNaN")
            if guard is not None:
                members.add(guard)
                operands = operands[1:]
        if len(operands) != 1:
            return None
        probabilities = operands[0]
    return None


def _read_cache(graph: FusionGraph, value: ir.Value | None) -> set[int]:
    """The ops between a cache and the product that reads it alone; none where it reads no cache."""
    found: set[int] = set()
    while value is not None and not value.is_graph_output():
        position = graph.producer_of(value, *_ON_CACHE)
        if position is None or graph.only_reader(position) is None:
            break
        scaled = graph.op(position) == "Mul"  # by a constant: exporters scale keys and queries
        if scaled and len(graph.operands(position)) != 1:
            break
        found.add(position)
        value = graph.operands(position)[0] if scaled else graph.nodes[position].inputs[0]
    is_cache = value is not None and (value.is_graph_output() or value.is_graph_input())
    return found if is_cache else set()


def _softmax(grouping: Grouping, position: int) -> tuple[set[int], ir.Value] | None:
    """The ops of a softmax that ends at `position`, and its scores."""
    graph = grouping.graph
    if graph.op(position) == "Softmax":
        return {position}, graph.operands(position)[0]
    group = grouping.group_of(position)
    if group is None or group.kind != "softmax" or group.exit != position:
        return None
    first = min(group.members)
    return set(group.members), graph.operands(first)[0]


def _path_to_product(graph: FusionGraph, scores: ir.Value, softmax: set[int]) -> set[int] | None:
    """The ops from the nearest `MatMul` of two activations to `scores`, which `softmax` reads."""
    # A mask is an operand as well; the scores are the one that leads to a product. All ops on the
    # way have one reader (or the softmax in parts), so that the search runs over a tree.
    reader_of: dict[int, int | None] = {}
    pending: list[tuple[ir.Value, int | None]] = [(scores, None)]
    while pending and len(reader_of) < _MAX_SEARCHED:
        value, reader = pending.pop()
        position = graph.producer(value)
        if position is None:
            continue
        readers = graph.readers[position]
        if len(readers) != 1 and not softmax.issuperset(readers):
            continue
        operands = graph.operands(position)
        if graph.op(position) == "MatMul" and len(operands) == 2:
            path = {position}
            while reader is not None:
                path.add(reader)
                reader = reader_of[reader]
            return path
        if graph.op(position) in _ON_SCORES and position not in reader_of:
            reader_of[position] = reader
            pending += [(operand, position) for operand in reversed(operands)]
    return None


ATTENTION = FusionRule("attention", frozenset({"MatMul"}), _match)
