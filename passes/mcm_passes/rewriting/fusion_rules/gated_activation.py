"""Activations of the form `x * f(x)`, where `f` is a chain of elementwise ops."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import onnx_ir as ir

from mcm_passes.rewriting.fusion_rules.fusion_graph import FusionGraph
from mcm_passes.rewriting.fusion_rules.op_classes import ARITHMETIC
from mcm_passes.rewriting.fusion_rules.region import Growth, ancestors_up_to, grow

_INNER = ARITHMETIC | {"Cast", "Clip", "Exp", "Log", "Neg", "Softplus"}
_MAX_SOURCES = 8


def gated_activation(graph: FusionGraph, anchor: int) -> set[int] | None:
    """The ops of `x * f(x)` with `anchor` in `f`, scaling included; None if it is no such thing.

    The nearest `x` above the anchor is taken for which the whole reads nothing else.
    """
    for source in _values_above(graph, anchor):
        inner = ancestors_up_to(graph, anchor, source, _INNER)
        if inner is None:
            continue
        growth = Growth(
            source,
            allowed=ARITHMETIC | {"Cast"},
            joins=frozenset({"Mul", "Div"}),
            joined=frozenset({source}),
        )
        if (members := grow(graph, inner, growth)) is not None:
            return members
    return None


def _values_above(graph: FusionGraph, anchor: int) -> Iterator[ir.Value]:
    pending = deque(graph.operands(anchor))
    seen = set(pending)
    for _ in range(_MAX_SOURCES):
        if not pending:
            return
        value = pending.popleft()
        yield value
        producer = graph.producer_of(value, *_INNER)
        if producer is not None:
            new = [operand for operand in graph.operands(producer) if operand not in seen]
            seen.update(new)
            pending.extend(new)
