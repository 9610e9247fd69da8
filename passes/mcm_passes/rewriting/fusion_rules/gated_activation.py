"""Activations of the form `x * f(x)`, where `f` is a chain of elementwise ops: Gelu and Swish."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import onnx_ir as ir

from mcm_compiler.graph.op_classes import ARITHMETIC
from mcm_passes.rewriting.fusion_rules.grouping import FusionGraph, Grouping
from mcm_passes.rewriting.fusion_rules.region import Growth, ancestors_up_to, grow
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

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


def _gelu(grouping: Grouping, anchor: int) -> set[int] | None:
    """Gelu in its parts: by the error function, or approximated by tanh.

    Hendrycks and Gimpel 2016, *Gaussian Error Linear Units*: `x / 2 * (1 + erf(x / sqrt(2)))` and
    `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, with the factors in any order.
    """
    graph = grouping.graph
    above = [graph.producer_of(v, "Softplus") for v in graph.operands(anchor)]
    # x * tanh(softplus(x)) is Mish.
    return None if any(p is not None for p in above) else gated_activation(graph, anchor)


GELU = FusionRule("gelu", frozenset({"Erf", "Tanh"}), _gelu)


def _swish(grouping: Grouping, anchor: int) -> set[int] | None:
    """Swish and its kin in parts: `x * sigmoid(a x)` (SiLU), HardSwish, Mish.

    Ramachandran et al. 2017, *Searching for Activation Functions*; Howard et al. 2019, *Searching
    for MobileNetV3* (`x * clip(x + 3, 0, 6) / 6`); Misra 2019, *Mish* (`x * tanh(softplus(x))`).
    """
    return gated_activation(grouping.graph, anchor)


SWISH = FusionRule("swish", frozenset({"Clip", "HardSigmoid", "Sigmoid", "Tanh"}), _swish)
