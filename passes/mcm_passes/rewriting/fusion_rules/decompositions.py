"""Normalisations and activations in their parts: regions between one source value and one exit."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.op_classes import ARITHMETIC
from mcm_passes.rewriting.fusion_rules.grouping import OUTSIDE, FusionGraph, Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

MAX_REGION = 24
"""Ops that a pattern may take; the largest decomposition in use (LayerNorm) has 13."""


def ancestors_up_to(
    graph: FusionGraph, anchor: int, source: ir.Value, allowed: Collection[str]
) -> set[int] | None:
    """`anchor` and the ops between `source` and it.

    Args:
        graph: the graph.
        anchor: where to start going backwards.
        source: the value at which to stop.
        allowed: types of the ops in between.

    Returns:
        None if the anchor depends on anything but constants and `source`, or an op in between is
        not allowed.
    """
    members = {anchor}
    pending = [anchor]
    while pending:
        for operand in graph.operands(pending.pop()):
            if operand is source:
                continue
            producer = graph.producer(operand)
            if producer is None or graph.op(producer) not in allowed:
                return None
            if producer not in members:
                if len(members) == MAX_REGION:
                    return None
                members.add(producer)
                pending.append(producer)
    return members


@dataclass(frozen=True)
class Growth:
    """How a region grows from its seed towards its exit.

    Attributes:
        source: the value that the region may read besides constants and its own results.
        allowed: types of the ops that it may take up.
        joins: types of the ops that complete the pattern...
        joined: ...when they read one of these values.
    """

    source: ir.Value
    allowed: frozenset[str]
    joins: frozenset[str]
    joined: frozenset[ir.Value]


def grow(graph: FusionGraph, seed: Set[int], growth: Growth) -> set[int] | None:
    """Takes up readers of the region as long as they read nothing from elsewhere.

    An op that computes `source` with constants only and is read by the new member alone (as in
    `(0.5 * x) * (1 + erf)`) comes along with it, and counts as reading the source.

    Returns:
        The largest region with a single exit that contains a join; None if there is none.
    """
    members = set(seed)
    best: set[int] | None = None
    complete = False
    pending: list[int] = []
    queued: set[int] = set()

    def queue_readers(position: int) -> None:
        # An output with many readers is where the pattern ends.
        for reader in graph.readers[position][:MAX_REGION]:
            if reader != OUTSIDE and reader not in queued and reader not in members:
                queued.add(reader)
                heapq.heappush(pending, reader)

    for position in sorted(seed):
        queue_readers(position)
    while pending and len(members) < MAX_REGION:
        position = heapq.heappop(pending)
        if not graph.fusible(position) or graph.op(position) not in growth.allowed:
            continue
        beside = _beside(graph, position, members, growth)
        if beside is None:
            continue
        members |= {position, *beside}
        queue_readers(position)
        if graph.op(position) in growth.joins:
            reads = any(operand in growth.joined for operand in graph.operands(position))
            complete = complete or reads or bool(beside)
        if complete and len(graph.exits(members)) == 1:
            best = set(members)
    return best


def _beside(
    graph: FusionGraph, position: int, members: Set[int], growth: Growth
) -> list[int] | None:
    """Ops that come along with a new member; None if it reads something from elsewhere."""
    beside: list[int] = []
    for operand in graph.operands(position):
        producer = graph.producer(operand)
        if operand is growth.source or producer in members:
            continue
        if producer is None or graph.op(producer) not in growth.allowed:
            return None
        if graph.operands(producer) != [growth.source] or graph.readers[producer] != (position,):
            return None
        beside.append(producer)
    return beside


GROWTH_OPS = frozenset({"Add", "Cast", "Div", "Mul", "Reciprocal", "Sub"})
"""Ops from the root to the scaled and shifted result."""


@dataclass(frozen=True)
class RootMeanSquare:
    """`sqrt(mean(v * v) + epsilon)`.

    Attributes:
        value: v.
        members: the ops from v to the root.
    """

    value: ir.Value
    members: frozenset[int]


def root_mean_square(graph: FusionGraph, root: int) -> RootMeanSquare | None:
    """Recognises a root mean square by its root, a `Sqrt` or a `Pow` with constant exponent."""
    members = [root]

    def step(value: ir.Value, *ops: str) -> ir.Value | None:
        """The one operand of the op that makes `value`."""
        position = graph.producer_of(value, *ops)
        if position is None:
            return None
        operands = graph.operands(position)
        if len(operands) != 1:
            return None
        members.append(position)
        return operands[0]

    operands = graph.operands(root)
    if len(operands) != 1:
        return None
    value = operands[0]
    value = step(value, "Add", "Max") or value
    mean = step(value, "ReduceMean")
    if mean is None:
        return None
    square = step(mean, "Mul", "Pow")
    if square is None or not _is_square(graph.nodes[members[-1]]):
        return None
    return RootMeanSquare(square, frozenset(members))


def centered(graph: FusionGraph, value: ir.Value) -> tuple[ir.Value, frozenset[int]] | None:
    """Recognises `x - mean(x)`: x and the two ops."""
    difference = graph.producer_of(value, "Sub")
    if difference is None:
        return None
    minuend, subtrahend = graph.nodes[difference].inputs
    if minuend is None or subtrahend is None:
        return None
    mean = graph.producer_of(subtrahend, "ReduceMean")
    if mean is None or graph.operands(mean) != [minuend]:
        return None
    return minuend, frozenset({difference, mean})


def _is_square(node: ir.Node) -> bool:
    if node.op_type == "Mul":
        return node.inputs[0] is node.inputs[1]
    exponent = node.inputs[1].const_value if node.inputs[1] is not None else None
    return exponent is not None and exponent.size == 1 and exponent.numpy().item() == 2


def _layer_norm(grouping: Grouping, anchor: int) -> set[int] | None:
    """LayerNorm in its parts (Ba et al. 2016, *Layer Normalization*).

    `(x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + shift`, as PyTorch exports it up to
    opset 16, and `x * (scale / root) + (shift - mean * scale / root)`, as TensorFlow does.
    """
    graph = grouping.graph
    root = root_mean_square(graph, anchor)
    center = centered(graph, root.value) if root is not None else None
    if root is None or center is None:
        return None
    source, ops = center
    growth = Growth(
        source,
        allowed=GROWTH_OPS,
        joins=frozenset({"Div", "Mul"}),
        joined=frozenset({source, root.value}),
    )
    return grow(graph, root.members | ops, growth)


LAYER_NORM = FusionRule("layer_norm", frozenset({"Sqrt", "Pow"}), _layer_norm)


def _rms_norm(grouping: Grouping, anchor: int) -> set[int] | None:
    """RMSNorm (Zhang and Sennrich 2019): `x / sqrt(mean(x^2) + epsilon) * scale`."""
    graph = grouping.graph
    root = root_mean_square(graph, anchor)
    if root is None:
        return None
    growth = Growth(
        root.value,
        allowed=GROWTH_OPS,
        joins=frozenset({"Div", "Mul"}),
        joined=frozenset({root.value}),
    )
    return grow(graph, root.members, growth)


RMS_NORM = FusionRule("rms_norm", frozenset({"Sqrt", "Pow"}), _rms_norm)


def _softmax(grouping: Grouping, anchor: int) -> set[int] | None:
    """Softmax and LogSoftmax: `exp(x - max(x)) / sum(exp(x - max(x)))`."""
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


SOFTMAX = FusionRule("softmax", frozenset({"ReduceSum"}), _softmax)


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
