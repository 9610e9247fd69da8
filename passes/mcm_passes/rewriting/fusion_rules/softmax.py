"""Softmax and LogSoftmax in their parts: `exp(x - max(x)) / sum(exp(x - max(x)))`."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.region import Growth, grow
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    graph = grouping.graph
    operands = graph.operands(anchor)
    exponential = graph.producer_of(operands[0], "Exp") if len(operands) == 1 else None
    if exponential is None:
        return None
    seed = {anchor, exponential}
    (source,) = graph.operands(exponential)
    joined = {graph.output(exponential), source}
    difference = graph.producer_of(source, "Sub")
    if difference is not None:
        minuend, subtrahend = graph.nodes[difference].inputs
        maximum = graph.producer_of(subtrahend, "ReduceMax") if subtrahend is not None else None
        if minuend is not None and maximum is not None and graph.operands(maximum) == [minuend]:
            seed |= {difference, maximum}
            source = minuend
    growth = Growth(
        source,
        allowed=frozenset({"Div", "Log", "Mul", "Reciprocal", "Sub"}),
        joins=frozenset({"Div", "Mul", "Sub"}),
        joined=frozenset(joined),
    )
    return grow(graph, seed, growth)


SOFTMAX = FusionRule("softmax", frozenset({"ReduceSum"}), _match)
